/** A program text in one language. */
export interface Snippet {
  readonly language: string;
  readonly code: string;
}

/**
 * How a receiver checks `X-Signature`, the HMAC-SHA1 of the exact bytes of the body, in several languages.
 */
export const VERIFY_SNIPPETS: readonly Snippet[] = [
  {
    language: 'Node',
    code: `import { createHmac, timingSafeEqual } from 'node:crypto';

// body: the bytes as they came, before any parser
export function isAuthentic(body, signature, secret) {
  const expected = createHmac('sha1', secret).update(body).digest();
  const given = Buffer.from(signature ?? '', 'hex');
  return given.length === expected.length && timingSafeEqual(given, expected);
}`,
  },
  {
    language: 'Python',
    code: `import hashlib
import hmac

# body: the bytes as they came, before any parser
def is_authentic(body: bytes, signature: str, secret: str) -> bool:
    expected = hmac.new(secret.encode(), body, hashlib.sha1).hexdigest()
    return hmac.compare_digest(expected, signature or "")`,
  },
  {
    language: 'Go',
    code: `import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
)

// body: the bytes as they came, before any parser
func isAuthentic(body []byte, signature, secret string) bool {
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write(body)
	given, err := hex.DecodeString(signature)
	return err == nil && hmac.Equal(given, mac.Sum(nil))
}`,
  },
  {
    language: 'PHP',
    code: `<?php
// $body: the bytes as they came, such as file_get_contents('php://input')
function is_authentic(string $body, string $signature, string $secret): bool
{
    return hash_equals(hash_hmac('sha1', $body, $secret), $signature);
}`,
  },
  {
    language: 'Ruby',
    code: `require 'openssl'

# body: the bytes as they came, such as request.raw_post
def authentic?(body, signature, secret)
  expected = OpenSSL::HMAC.hexdigest('SHA1', secret, body)
  OpenSSL.secure_compare(expected, signature.to_s)
end`,
  },
  {
    language: 'Shell',
    code: `# Prints what X-Signature must be. body.json: the bytes as they came
openssl dgst -sha1 -hmac "$SECRET" body.json`,
  },
];
