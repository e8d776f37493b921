# debian.sh: Debians of their own in a test's folder, from where this one comes (debootstrap, chroot); for root alone. Who sources it stands in
# that folder, and calls `leave_roots` before it removes the folder.
mounted=()
leave_roots() {
    local m
    for m in "${mounted[@]}"; do umount "$m"; done
}
empty_root() { # NAME [RELEASE]: an empty Debian of this release, or of another; status 1: there is none, `reason` says why
    local codename mirror
    [ "$(id -u)" = 0 ] || { reason="not root"; return 1; }
    command -v debootstrap >/dev/null || { reason="there is no debootstrap"; return 1; }
    codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)' 'Created-By: Packages' |
        awk -v name="$codename" '$2 == name && $3 == "main" { print $1; exit }')
    debootstrap --variant=minbase "${2:-$codename}" "$1" "$mirror" >log 2>&1 || { reason="debootstrap: $(tail -n 1 log)"; return 1; }
    cp /etc/resolv.conf /etc/hosts "$1/etc/"
    printf 'APT::Install-Recommends "false";\nAcquire::Check-Valid-Until "false";\nAcquire::Check-Date "false";\n' >"$1/etc/apt/apt.conf.d/80test"
}
within() { # ROOT COMMAND...: in its folder /work
    local where=$1
    shift
    chroot "$where" env -i PATH=/work/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/work LC_ALL=C DEBIAN_FRONTEND=noninteractive \
        TMPDIR=/tmp bash -c 'cd /work && exec "$@"' within "$@"
}
open_root() { # NAME: its /proc and /work; status 1: apt finds no packages
    mkdir "$1/work"
    mount -t proc proc "$1/proc" && mounted+=("$PWD/$1/proc")
    within "$1" apt-get -q update >log 2>&1
}
