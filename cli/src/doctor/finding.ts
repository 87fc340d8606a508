/** The result of one check. */
export interface Finding {
  /** Name of the check, in a word or two. */
  readonly check: string;
  /**
   * `warn`: it works, with less speed, time or safety than it should have. `fail`: something does not work.
   */
  readonly verdict: 'ok' | 'warn' | 'fail';
  readonly found: string;
  /** Advice for the operator. Absent when all is well. */
  readonly advice?: string;
}
