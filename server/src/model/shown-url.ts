/** Stands for a value that is not shown. */
const MASK = '…';

/** Where a value stands in the query of a URL. */
export interface QueryPlace {
  /** Empty for a value without a name, as in `?value`. */
  readonly name: string;
  /** Among the values of that name, from 0. */
  readonly nth: number;
}

/**
 * A URL as it may be shown anywhere: `…` stands for user name and password, for every value of the query, and for the
 * fragment. Names of the query stay. Which values are credentials depends on the receiver, so none is shown.
 */
export function shownUrl(url: string): string {
  const withoutUser = url.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/?#]*@/i, `$1${MASK}@`);
  return withQuery(withoutUser, () => MASK).replace(/#.*$/s, `#${MASK}`);
}

/** The URL with other values in its query; an empty value stays as it is. */
export function withQuery(url: string, instead: (value: string, place: QueryPlace) => string): string {
  const { before, query, after } = parted(url);
  if (query === undefined) return url;
  const counts = new Map<string, number>();
  const values = query.split('&').map((part) => {
    const name = part.includes('=') ? part.slice(0, part.indexOf('=')) : '';
    const value = part.includes('=') ? part.slice(name.length + 1) : part;
    const nth = counts.get(name) ?? 0;
    counts.set(name, nth + 1);
    if (value === '') return part;
    return part.slice(0, part.length - value.length) + instead(value, { name, nth });
  });
  return `${before}?${values.join('&')}${after}`;
}

/** The URL with the values of another one where it holds what `shownUrl` puts in their place. */
export function restoredUrl(url: string, stored: string): string {
  const values = new Map<string, string>();
  withQuery(stored, (value, { name, nth }) => {
    values.set(JSON.stringify([name, nth]), value);
    return value;
  });
  return withQuery(url, (value, { name, nth }) =>
    value === MASK ? (values.get(JSON.stringify([name, nth])) ?? value) : value,
  );
}

/** Whether a value of the query is what `shownUrl` puts in the place of one. */
export function hasMaskedValue(url: string): boolean {
  let found = false;
  withQuery(url, (value) => {
    found ||= value === MASK;
    return value;
  });
  return found;
}

function parted(url: string): { before: string; query?: string; after: string } {
  const hash = url.indexOf('#');
  const whole = hash < 0 ? url : url.slice(0, hash);
  const mark = whole.indexOf('?');
  if (mark < 0) return { before: url, after: '' };
  return { before: whole.slice(0, mark), query: whole.slice(mark + 1), after: url.slice(whole.length) };
}
