const BASIC = /^basic +([\w+/-]+={0,2}) *$/i;

/**
 * The write key in an Authorization header: the user name of Basic authorization, with or without a colon behind it; the
 * password is ignored. Anything else, also `Bearer` (whose write key is in the body), carries no key.
 * decisions.md section 1, "write key".
 */
export function writeKeyIn(header: string): string | undefined {
  const encoded = BASIC.exec(header)?.[1];
  if (encoded === undefined) return undefined;
  const credentials = Buffer.from(encoded, 'base64').toString();
  const colon = credentials.indexOf(':');
  const user = colon < 0 ? credentials : credentials.slice(0, colon);
  return user === '' ? undefined : user;
}
