# awk -f together.awk FILE.c...: which files can be one translation unit: lines "GROUP FILE". Two can if no name that one of them gives to
# something of the whole file (a static function or table, a type, an enumerator, a macro) is a word of the other, or of headers that the
# other alone includes. Compilers then start once for a group, and read its headers once. Runs in the folder that #include "..." means. A name that is
# not recognised here is one that the compiler finds twice.
function owns(name) {
    if (name == "" || (scanned, name) in own) return
    own[scanned, name]
    owned[scanned] = owned[scanned] " " name
    if (scanned ~ /\.h$/) known(name)
}
function known(name) { headers_with[name] = headers_with[name] " " scanned }
function last_word(text) { gsub(/[^A-Za-z_0-9]+/, " ", text); sub(/ +$/, "", text); sub(/.* /, "", text); return text }
function scan(file,    line, got, header, folder, n, w, k) { # its words and the headers that it names
    if (file in words) return
    words[file] = ""
    scanned = folder = file
    sub(/[^\/]*$/, "", folder)
    while ((got = getline line <file) > 0) {
        if (match(line, /^#include "[^"]*/)) {
            header = substr(line, 11, RLENGTH - 10)
            includes[file] = includes[file] " " (header ~ /\// ? header : folder header)
        }
        gsub(/"([^"\\]|\\.)*"|\/\*[^*]*\*\//, "", line)
        sub(/\/\*.*|^ *\*.*/, "", line)
        names(line)
        if (file ~ /\.h$/) {
            if (line ~ /^[A-Za-z_]/ && match(line, /[A-Za-z_0-9]+\(/)) owns(substr(line, RSTART, RLENGTH - 1)) # a function
            if (match(line, /^ +[A-Z]+\([A-Z_0-9]+,/)) owns(last_word(substr(line, 1, RLENGTH - 1)))           # a row of a list
            if (match(line, /struct [A-Za-z_0-9]+/)) known(last_word(substr(line, RSTART, RLENGTH)))
        }
        n = split(line, w, /[^A-Za-z_0-9]+/)
        for (k = 1; k <= n; k++) if (w[k] != "" && !((file, w[k]) in has)) { has[file, w[k]]; words[file] = words[file] " " w[k] }
    }
    if (got < 0) missing[file]
    close(file)
}
function names(line,    n, w, k) { # of the whole file
    if (match(line, /^# *define +[A-Za-z_0-9]+/)) owns(last_word(substr(line, 1, RLENGTH)))
    else if (line ~ /^static / && match(line, /[}] [A-Za-z_0-9]+( =|\[|;)/)) owns(last_word(substr(line, RSTART, RLENGTH)))
    else if (line ~ /^(static|__thread|_Thread_local)/ && match(line, /[A-Za-z_0-9]+ *[[(=;]/)) owns(last_word(substr(line, 1, RLENGTH + RSTART - 2)))
    else if (line ~ /^([}] *|typedef .*)[A-Za-z_0-9]+;/ && line !~ /^typedef (struct|union) [A-Za-z_0-9]+ [A-Za-z_0-9]+;/) owns(last_word(line))
    if (match(line, /^(static |typedef |const )*(struct|enum|union) [A-Za-z_0-9]+( [{]|$)/)) owns(last_word(substr(line, 1, RLENGTH)))
    if (line ~ /^(static |typedef )*enum [^;]*$|^(static |typedef )*enum.*[{]/) enumerators = 1
    if (enumerators && line !~ /^#/) {
        k = line
        sub(/^[^{]*[{]/, "", k)
        n = split(k, w, ",")
        for (k = 1; k <= n; k++) { sub(/[=}].*/, "", w[k]); owns(last_word(w[k])) }
    }
    if (line ~ /[};]/) enumerators = 0
}
function closure(of, from,    n, h, k) { # the headers that come with `from`
    n = split(includes[from], h, " ")
    for (k = 1; k <= n; k++) if (!((of, h[k]) in heads)) {
        heads[of, h[k]]
        headers[of] = headers[of] " " h[k]
        scan(h[k])
        if (h[k] in missing) alone[of]
        closure(of, h[k])
    }
}
function shun(file, of,    n, w, k, m, h, i) { # headers of others that have names which are in `of`
    n = split(owned[of], w, " ")
    for (k = 1; k <= n; k++) {
        m = split(headers_with[w[k]], h, " ")
        for (i = 1; i <= m; i++) if (!((file, h[i]) in heads)) averse[file] = averse[file] " " h[i]
    }
}
function fits(file, g,    n, w, k) {
    n = split(owned[file], w, " "); for (k = 1; k <= n; k++) if ((g, w[k]) in group_words) return 0
    n = split(words[file], w, " "); for (k = 1; k <= n; k++) if ((g, w[k]) in group_owns) return 0
    n = split(averse[file], w, " "); for (k = 1; k <= n; k++) if ((g, w[k]) in group_heads) return 0
    n = split(headers[file], w, " "); for (k = 1; k <= n; k++) if ((g, w[k]) in group_averse) return 0
    return 1
}
function put(file, g,    n, w, k) {
    n = split(owned[file], w, " "); for (k = 1; k <= n; k++) group_owns[g, w[k]]
    n = split(words[file], w, " "); for (k = 1; k <= n; k++) group_words[g, w[k]]
    n = split(averse[file], w, " "); for (k = 1; k <= n; k++) group_averse[g, w[k]]
    n = split(headers[file], w, " "); for (k = 1; k <= n; k++) group_heads[g, w[k]]
    size[g]++
    print g, file
}
BEGIN {
    most = 12 # so that there are enough for all cores
    for (i = 1; i < ARGC; i++) { file = ARGV[i]; scan(file); closure(file, file) }
    for (i = 1; i < ARGC; i++) {
        file = ARGV[i]
        if (file in alone) continue # with a header that is made
        shun(file, file)
        n = split(headers[file], h, " ")
        for (k = 1; k <= n; k++) shun(file, h[k])
        for (g = 1; size[g] >= most || !fits(file, g); g++) {}
        put(file, g)
    }
}
