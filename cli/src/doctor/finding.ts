/** What one check has found. */
export interface Finding {
  /** What was looked at, in a word or two. */
  readonly check: string;
  /** `warn`: it works, but not as well, as long or as safely as it should. `fail`: something does not work. */
  readonly verdict: 'ok' | 'warn' | 'fail';
  readonly found: string;
  /** What to do about it; not there when all is well. */
  readonly advice?: string;
}
