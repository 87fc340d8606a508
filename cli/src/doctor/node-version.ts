import type { Finding } from './finding.ts';

/** As `engines` of the package has it: below it the store is not there. */
const LEAST = 24;

/** `version` as `process.version` has it. */
export function nodeVersion(version: string): Finding {
  const check = 'node';
  const major = Number.parseInt(version.replace(/^v/, ''), 10);
  if (major >= LEAST) return { check, verdict: 'ok', found: version };
  return { check, verdict: 'fail', found: version, advice: `install Node ${LEAST} or newer` };
}
