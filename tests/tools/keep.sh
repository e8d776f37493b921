# keep.sh: what quick_cc and quick_cxx, which name a folder $kept, find once
keep() { # FILE COMMAND...: what the command prints; whole, if others ask for it at the same time
    mkdir -p "$kept" || exit
    file=$1
    shift
    "$@" >"$file.$$" && mv "$file.$$" "$file"
}
