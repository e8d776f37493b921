#!/bin/sh
# embed.sh OUT.c HEADER TABLE FOLDER FILE...: writes the texts of files as C: a table of names (FOLDER/FILE) and texts that HEADER declares.
set -eu
out=$1 header=$2 table=$3 folder=$4
shift 4
{
    echo '/* written by dsl/embed.sh */'
    echo "#include \"$header\""
    echo
    echo "const $table[] = {"
    for file in "$@"; do
        printf '    {"%s%s",\n' "$folder" "$(basename "$file")"
        sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/     "/' -e 's/$/\\n"/' "$file"
        echo '    },'
    done
    echo '    {NULL, NULL},'
    echo '};'
} >"$out.new"
mv "$out.new" "$out"
