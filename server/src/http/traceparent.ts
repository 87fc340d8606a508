/** Longer ones are of no version there is. */
const MAX_LENGTH = 256;

const FORM = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-[!-~]*)?$/;

/**
 * The value of a `traceparent` header, when it is one: what is not must be taken as if it were not there (W3C Trace Context,
 * section 3.2). Versions to come may have more behind it and begin in the same way; version ff is forbidden.
 */
export function parseTraceparent(header: unknown): string | undefined {
  if (typeof header !== 'string' || header.length > MAX_LENGTH) return undefined;
  const [, version, trace, parent, more] = FORM.exec(header) ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return undefined;
  return isZero(trace) || isZero(parent) ? undefined : header;
}

function isZero(id: string | undefined): boolean {
  return id === undefined || /^0+$/.test(id);
}
