import type { Failure } from './failure.ts';

/** A token of RFC 9110. */
const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** One byte per character on the wire; a line break would let a value add headers of its own. */
const VALUE = /^[\t\u0020-\u007e\u0080-\u00ff]*$/;

/** Headers that say where the request ends and what becomes of the connection: they are ours, whoever names them. */
const OURS: ReadonlySet<string> = new Set([
  ...['connection', 'content-length', 'expect', 'keep-alive'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade'],
]);

const HOST = 'host';

/** Names that were looked at and are good; their number is bounded because endpoints are. */
const good = new Set<string>();
const MOST_REMEMBERED = 1000;

/** What a URL says of the head of every request to it. */
export interface RequestPlace {
  /** With the query. */
  readonly path: string;
  /** As in the URL; a header of that name replaces it. */
  readonly host: string;
}

/** The whole head of a request with so many bytes of body, in Latin-1; or why it cannot be sent. */
export function requestHead(
  { path, host }: RequestPlace,
  headers: Readonly<Record<string, string>>,
  length: number,
): string | Failure {
  let named = host;
  let fields = '';
  for (const name in headers) {
    const value = headers[name]!;
    const problem = good.has(name) ? undefined : problemOf(name);
    if (problem !== undefined) return problem;
    if (!VALUE.test(value)) {
      return invalid(`the value of the header ${name} has characters that cannot be sent`);
    }
    if (name.length === HOST.length && name.toLowerCase() === HOST) named = value;
    else fields += `${name}: ${value}\r\n`;
  }
  return (
    `POST ${path} HTTP/1.1\r\nhost: ${named}\r\nconnection: keep-alive\r\n` +
    `${fields}content-length: ${length}\r\n\r\n`
  );
}

function problemOf(name: string): Failure | undefined {
  if (!NAME.test(name)) return invalid(`${JSON.stringify(name)} is not the name of a header`);
  if (OURS.has(name.toLowerCase()))
    return invalid(`the header ${name} is set by the connection and by nobody else`);
  if (good.size >= MOST_REMEMBERED) good.clear();
  good.add(name);
  return undefined;
}

function invalid(detail: string): Failure {
  return { reason: 'invalid_request', detail };
}
