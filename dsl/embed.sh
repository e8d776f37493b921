#!/bin/sh
# embed.sh OUT.c FILE...: writes the texts of the library as C: the table LIBRARY_FILES of elaborate.h.
set -eu
out=$1
shift
{
    echo '/* written by dsl/embed.sh */'
    echo '#include "dsl/elaborate.h"'
    echo
    echo 'const LibraryFile LIBRARY_FILES[] = {'
    for file in "$@"; do
        printf '    {"stdlib/%s",\n' "$(basename "$file")"
        sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/     "/' -e 's/$/\\n"/' "$file"
        echo '    },'
    done
    echo '    {NULL, NULL},'
    echo '};'
} >"$out.new"
mv "$out.new" "$out"
