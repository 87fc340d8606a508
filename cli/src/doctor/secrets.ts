import type { SecretsAtRest } from '@millrace/server';
import type { Finding } from './finding.ts';

/** Judges whether secrets in the store and its backups are encrypted. */
export function secrets({ key, problem }: SecretsAtRest): Finding {
  const check = 'secrets at rest';
  if (problem !== undefined)
    return { check, verdict: 'fail', found: problem, advice: 'a start with these keys ends with the same' };
  if (key !== undefined) return { check, verdict: 'ok', found: `encrypted with the key ${key}` };
  return {
    check,
    verdict: 'warn',
    found:
      'secrets.key is not set: whoever reads the store or a backup reads shared secrets, headers and passwords',
    advice: 'make a key with openssl rand -base64 32, keep it apart from the backups, and set secrets.key',
  };
}
