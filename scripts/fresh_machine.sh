#!/bin/sh
# Follows the README on an empty Debian: makes a root that holds a minimal system and make, clones the committed tree
# into it and runs the README's commands there.
#
#   scripts/fresh_machine.sh SUITE [demo|test|both|setup]
#
# SUITE: bookworm (Debian 12) or trixie (Debian 13). demo: `make demo` (the default); test: `make test`; both: the first and
# then the second; setup: the packages, the headers that the sources include, the configuration and the build of one small
# program, in a few minutes.
#
# Variables: DEBIAN_MIRROR, the mirror unless that of this machine's apt is to serve; FRESH_MACHINE_DIR, where to make
# the root (some GiB; it is removed in the end); FRESH_MACHINE_KEEP=1 keeps it. The root has this machine's way to the
# network: resolver, proxies, certificates and pip's settings.
# Exit: that of the commands; 77 where no such root can be made here (not root, no debootstrap, no mounts).
set -eu

cd "$(dirname "$0")/.."
suite=${1:-}
job=${2:-demo}
case "$suite" in bookworm | trixie) ;; *) echo "usage: $0 bookworm|trixie [demo|test|both|setup]" >&2; exit 2 ;; esac
case "$job" in
  demo | test) commands="make $job" ;;
  both) commands='begin=$(date +%s) && make demo && echo "make demo: $(($(date +%s) - begin)) s" && make test' ;;
  setup) commands="make setup && scripts/outside_headers.sh && make build/build.ninja && ninja -C build base_test src/exec/cpu/CMakeFiles/shoehorn_exec_cpu.dir/products/matmul_onednn.cc.o && build/src/base/base_test --gtest_brief=1" ;;
  *) echo "usage: $0 bookworm|trixie [demo|test|both|setup]" >&2; exit 2 ;;
esac

cannot() { echo "no fresh $suite here: $1" >&2; exit 77; }
[ "$(id -u)" -eq 0 ] || cannot "it takes root"
command -v debootstrap > /dev/null || cannot "debootstrap is not installed (make setup-dev)"
unshare --mount --pid --fork true 2> /dev/null || cannot "this machine allows no mounts"

# The archive that apt takes Debian itself from: not its security updates, nobody else's packages.
apt_mirror() {
  apt-get indextargets --format '$(REPO_URI) $(LABEL)' 'Created-By: Packages' 2> /dev/null | sed -n 's/ Debian$//p' | head -n 1
}
mirror=${DEBIAN_MIRROR:-$(apt_mirror)}
[ -n "$mirror" ] || cannot "apt names no mirror of Debian; name one by DEBIAN_MIRROR="

root=$(mktemp -d "${FRESH_MACHINE_DIR:-${TMPDIR:-/var/tmp}}/fresh-$suite.XXXXXX")
[ -n "${FRESH_MACHINE_KEEP:-}" ] || trap 'rm -rf --one-file-system "$root"' EXIT
chmod 755 "$root"
log=$root.log
start=$(date +%s)
debootstrap --variant=minbase --include=make "$suite" "$root" "$mirror" > "$log" 2>&1 || {
  tail -n 20 "$log" >&2
  echo "the empty $suite could not be made" >&2
  exit 1
}
rm -f "$log"

# The way to the network. The certificates lie where no package of the root puts its own.
certificates=/etc/certificates-of-the-host.pem
for file in "${PIP_CERT:-}" "${SSL_CERT_FILE:-}" "${REQUESTS_CA_BUNDLE:-}" /etc/ssl/certs/ca-certificates.crt; do
  [ ! -f "$file" ] || [ -f "$root$certificates" ] || cp -L "$file" "$root$certificates"
done
for file in /etc/resolv.conf /etc/hosts /etc/pip.conf; do
  [ ! -f "$file" ] || cp -L "$file" "$root$file"
done
apt-config dump | grep -i '^Acquire::https\{0,1\}::Proxy' > "$root/etc/apt/apt.conf.d/proxy" || true
environment=$(env | grep -E '^(https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY|PIP_[A-Z_]+)=[^[:space:]]*$' | grep -v '^PIP_CERT=' || true)
[ ! -f "$root$certificates" ] || environment="$environment PIP_CERT=$certificates"

git clone --quiet --no-hardlinks . "$root/root/shoehorn"

echo "a fresh $suite after $(($(date +%s) - start)) s; $commands"
start=$(date +%s)
code=0
# Mounts and processes end with the command.
# shellcheck disable=SC2086  # the environment is words
unshare --mount --pid --fork sh -eu -c '
  root=$1; shift
  mount --make-rprivate /
  mount --rbind /dev "$root/dev"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys" 2> /dev/null || true  # not where a container forbids it
  exec chroot "$root" env -i "$@"
' sh "$root" HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 $environment \
  sh -c "cd /root/shoehorn && $commands" < /dev/null || code=$?
echo "$suite: $commands: exit $code after $(($(date +%s) - start)) s"
exit "$code"
