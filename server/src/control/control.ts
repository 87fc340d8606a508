import type { Control } from '../ports/control.ts';
import { answerTo } from './answer.ts';
import { type ControlOptions, makeApi } from './api.ts';
import { Problem } from './problem.ts';
import { carriedBy } from './streamed.ts';

/**
 * The control API (contract.md sections 2 and 4), complete before anything is asked: to load it later would hold up every call for a tenth of a second.
 */
export async function createControl(options: ControlOptions): Promise<Control> {
  const api = await makeApi(options);
  return async ({ method, path, query, body, address, ...headers }) => {
    try {
      if (body === 'too_large') throw new Problem('body_too_large');
      const answer = await api.inject({
        method: methodFor(method),
        url: query === '' ? path : `${path}?${query}`,
        remoteAddress: address,
        headers: {
          ...present('authorization', headers.authorization),
          ...present('if-match', headers.ifMatch),
          ...present('idempotency-key', headers.idempotencyKey),
          ...(body === '' ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === '' ? {} : { payload: body }),
      });
      const stream = carriedBy(answer.raw.res);
      const said = headersOf(answer.headers);
      return stream === undefined
        ? { status: answer.statusCode, headers: said, body: answer.body }
        : { status: answer.statusCode, headers: { ...said, ...UNBUFFERED }, body: stream };
    } catch (error) {
      return answerTo(error, { path, method }, options.logger);
    }
  };
}

/**
 * The method as the framework is asked: it answers 500 to those that it does not know, such as QUERY, so they go as one that no
 * operation has. HEAD is GET without the body, which the listener leaves out, so the length is that of the body.
 */
function methodFor(method: string): 'GET' {
  if (method === 'HEAD') return 'GET';
  return (KNOWN_METHODS.includes(method) ? method : 'OPTIONS') as 'GET';
}

const KNOWN_METHODS: readonly string[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/** nginx and those who learned from it would keep the lines back until there are many. */
const UNBUFFERED = { 'X-Accel-Buffering': 'no' };

/** Those that say something; lengths and connections are the listener's. JSON is UTF-8 and its type has no parameters. */
function headersOf(headers: Readonly<Record<string, unknown>>): Record<string, string> {
  const type = headers['content-type'];
  const answer: Record<string, string> = {
    ...(typeof type === 'string' ? { 'Content-Type': type.replace(/;.*/, '') } : {}),
    'Cache-Control': 'no-store',
  };
  for (const name of ['Allow', 'WWW-Authenticate', 'ETag', 'Retry-After']) {
    const value = headers[name.toLowerCase()];
    if (typeof value === 'string') answer[name] = value;
  }
  return answer;
}

function present(name: string, value: string | undefined): Record<string, string> {
  return value === undefined ? {} : { [name]: value };
}
