#!/usr/bin/env bash
# Makes a private CA and certificates for servers on this machine. Only for tests.
# usage: certificates.sh DIR      makes DIR/ca.crt and
#   DIR/server/     signed by the CA, for 127.0.0.1 and localhost
#   DIR/expired/    the same, but expired
#   DIR/elsewhere/  signed by the CA, for another host
# each folder with public.crt and private.key; and DIR/other.crt, the certificate of a CA that signed none of them.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly KEY=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)

# make_ca NAME
make_ca() {
  openssl req -x509 "${KEY[@]}" -days 2 -subj "/CN=Cleat test $1" -addext basicConstraints=critical,CA:TRUE \
    -addext keyUsage=critical,keyCertSign,cRLSign -keyout "$1.key" -out "$1.crt"
}

# sign NAME DAYS: the certificate of NAME/request by the CA, with the names in the file "names".
sign() {
  openssl x509 -req -in "$1/request" -CA ca.crt -CAkey ca.key -CAcreateserial -extfile names "${@:2}" \
    -out "$1/public.crt"
}

# request NAME ALTERNATIVE_NAMES
request() {
  mkdir -p "$1"
  openssl req -new "${KEY[@]}" -subj "/CN=Cleat test $1" -keyout "$1/private.key" -out "$1/request"
  # The last three are what Python 3.13 asks for.
  printf '%s\n' "subjectAltName=$2" basicConstraints=CA:FALSE keyUsage=digitalSignature \
    authorityKeyIdentifier=keyid >names
}

make_all() {
  make_ca ca
  make_ca other
  request server IP:127.0.0.1,DNS:localhost
  sign server -days 2
  request elsewhere DNS:s3.example.com
  sign elsewhere -days 2
  request expired IP:127.0.0.1,DNS:localhost
  # Which way to a certificate that has ended openssl offers depends on its version.
  sign expired -not_before 20200101000000Z -not_after 20200102000000Z || sign expired -days -1
}

[ $# = 1 ] || die "usage: certificates.sh DIR"
"$TOOLS/deps.sh" server
mkdir -p "$1"
cd "$1"
make_all >log 2>&1 || { cat log >&2; die "openssl could not make the certificates; what it says is above"; }
