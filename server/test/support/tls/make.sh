#!/bin/sh
# Makes the certificates beside this file anew; run it in an empty folder. Needs openssl 3.
set -eu
FROM=20200101000000Z
TO=21200101000000Z

request() { # name, common name, extension, kind of key
  openssl genpkey ${4:--algorithm EC -pkeyopt ec_paramgen_curve:P-256} -out "$1.key"
  openssl req -new -key "$1.key" -subj "/CN=$2" -addext "$3" -out "$1.csr"
}
sign() { # name, end, how
  name=$1 end=$2
  shift 2
  openssl ca -batch -notext -config ca.cnf -in "$name.csr" -out "$name.pem" -startdate $FROM -enddate "$end" "$@"
}

cat > ca.cnf <<'END'
[ca]
default_ca = tests
[tests]
database = ./index.txt
new_certs_dir = .
rand_serial = yes
certificate = ./ca.pem
private_key = ./ca.key
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
END
: > index.txt

HERE='subjectAltName=DNS:localhost,IP:127.0.0.1'
request ca 'Millrace tests authority' 'basicConstraints=critical,CA:TRUE'
sign ca $TO -selfsign -keyfile ca.key
request server 'Millrace tests server' "$HERE"
sign server $TO
request expired 'Millrace tests expired' "$HERE"
sign expired 20200201000000Z
request other-host 'Millrace tests other host' 'subjectAltName=DNS:other.example'
sign other-host $TO
request self-signed localhost "$HERE"
sign self-signed $TO -selfsign -keyfile self-signed.key
request rsa localhost "$HERE" '-algorithm RSA -pkeyopt rsa_keygen_bits:2048'
sign rsa $TO -selfsign -keyfile rsa.key

# The authority's key is thrown away: nothing can be signed with it again.
rm -f ca.key ca.cnf ./*.csr index.txt* [0-9A-F]*.pem
