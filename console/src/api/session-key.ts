/**
 * The second value of a session. Browsers send a cookie to every port of its host, and keep storage apart for
 * each: a program on another port that gets the cookie has not this, and the server takes neither without the
 * other.
 */
const KEY = 'millrace.session-key';

/** Key of the session where the browser has no storage: it lasts as long as the page. */
let ofThisPage: string | undefined;

/** The header that every request sends beside the cookie. */
export function sessionHeader(): Readonly<Record<string, string>> {
  const key = ofThisPage ?? stored((storage) => storage.getItem(KEY)) ?? undefined;
  return key === undefined ? {} : { 'X-Millrace-Console': key };
}

/** Whether this page can send what a session needs. */
export function hasSessionKey(): boolean {
  return Object.keys(sessionHeader()).length > 0;
}

/** Keeps the value that a sign-in has given; without one it forgets it. */
export function keepSessionKey(key: string | undefined): void {
  const isKept = stored((storage) => {
    if (key === undefined) storage.removeItem(KEY);
    else storage.setItem(KEY, key);
    return true;
  });
  ofThisPage = isKept ? undefined : key;
}

function stored<Result>(use: (storage: Storage) => Result): Result | undefined {
  try {
    return use(localStorage);
  } catch {
    return undefined;
  }
}
