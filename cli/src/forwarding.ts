import type { IncomingMessage, RequestOptions } from 'node:http';
import { InvalidArgumentError } from 'commander';

/** Milliseconds, longer than any of our senders waits: a program halted in a debugger can still answer. */
const PATIENCE_MS = 60_000;

/** Maximum bytes of an answer. Answers are not stored, and need far less. */
const MOST_ANSWER = 1_048_576;

/** Hop-by-hop headers, which belong to the connection. Host and Content-Length are set anew. */
const OF_THE_CONNECTION =
  /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect|host|content-length)$/i;

/** A request to forward to another program. */
export interface Forwarded {
  readonly method: string;
  /** Names and values in turn, as received. */
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
}

/** The answer of the other program, or the reason why it has none. */
export interface ForwardAnswer {
  readonly status: number;
  readonly contentType?: string | undefined;
  readonly body: Buffer;
  readonly latencyMs: number;
  /** The reason why the program did not answer. The status is then 502. */
  readonly failure?: string;
}

/** Parses the argument of `--forward-to`. */
export function forwardTarget(text: string): URL {
  const url = URL.parse(text);
  if (url !== null && /^https?:$/.test(url.protocol)) return url;
  throw new InvalidArgumentError('It is a URL such as http://localhost:3000/webhooks.');
}

/** Forwards a request with its body and headers unchanged. Never rejects. */
export async function forward(request: Forwarded, to: URL): Promise<ForwardAnswer> {
  const began = performance.now();
  const answer = await answerTo(request, to);
  return { ...answer, latencyMs: performance.now() - began };
}

function answerTo(
  { method, rawHeaders, body }: Forwarded,
  to: URL,
): Promise<Omit<ForwardAnswer, 'latencyMs'>> {
  // An `import` would load Node's HTTP client for every verb.
  const { request } = process.getBuiltinModule(to.protocol === 'https:' ? 'node:https' : 'node:http');
  const headers = headersFor(rawHeaders, to, body);
  const options: RequestOptions = { method, headers, agent: false, signal: AbortSignal.timeout(PATIENCE_MS) };
  return new Promise((resolve) => {
    const fail = (error: Error) => resolve(unanswered(to, error));
    const sent = request(to, options, (response) => collect(response, to, resolve));
    sent.on('error', fail);
    sent.end(body);
  });
}

function collect(
  response: IncomingMessage,
  to: URL,
  resolve: (answer: Omit<ForwardAnswer, 'latencyMs'>) => void,
): void {
  const parts: Buffer[] = [];
  let size = 0;
  response.on('error', (error) => resolve(unanswered(to, error)));
  response.on('data', (part: Buffer) => {
    size += part.length;
    if (size <= MOST_ANSWER) parts.push(part);
  });
  response.on('end', () => {
    resolve({
      status: response.statusCode ?? 502,
      body: Buffer.concat(parts),
      contentType: response.headers['content-type'],
    });
  });
}

function headersFor(raw: readonly string[], to: URL, body: Buffer): string[] {
  const headers = ['Host', to.host];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    if (!OF_THE_CONNECTION.test(raw[at]!)) headers.push(raw[at]!, raw[at + 1]!);
  }
  return [...headers, 'Content-Length', String(body.length), 'Connection', 'close'];
}

function unanswered(to: URL, error: Error): Omit<ForwardAnswer, 'latencyMs'> {
  const why =
    error.name === 'TimeoutError' || error.name === 'AbortError' ? 'no answer in 60 s' : codeOf(error);
  const failure = `${to.origin} did not answer (${why})`;
  return { status: 502, contentType: 'text/plain', body: Buffer.from(`${failure}\n`), failure };
}

function codeOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : error.message;
}
