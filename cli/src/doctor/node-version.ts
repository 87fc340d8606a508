import type { Finding } from './finding.ts';

/** As `engines` of the package has it: below it the store is not there, or not to be trusted. */
const LEAST = '24.15';

/** `version` as `process.version` has it. */
export function nodeVersion(version: string): Finding {
  const check = 'node';
  const isRecent = version.replace(/^v/, '').localeCompare(LEAST, 'en', { numeric: true }) >= 0;
  if (isRecent) return { check, verdict: 'ok', found: version };
  return { check, verdict: 'fail', found: version, advice: `install Node ${LEAST} or newer` };
}
