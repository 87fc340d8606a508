import type { Finding } from './finding.ts';

/** The minimum in the package's `engines`. Older versions lack a SQLite, or have one that is not safe. */
const LEAST = '24.15';

/** `version` has the form of `process.version`. */
export function nodeVersion(version: string): Finding {
  const check = 'node';
  const isRecent = version.replace(/^v/, '').localeCompare(LEAST, 'en', { numeric: true }) >= 0;
  if (isRecent) return { check, verdict: 'ok', found: version };
  return { check, verdict: 'fail', found: version, advice: `install Node ${LEAST} or newer` };
}
