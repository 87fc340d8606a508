import createClient from 'openapi-fetch';
import type { paths } from './schema.d.ts';
import { timedFetch } from './server-time.ts';
import { sessionHeader } from './session-key.ts';

/** The control API, typed by its OpenAPI document. Wrap each call in `answer`. */
export const api = createClient<paths>({
  baseUrl: '',
  credentials: 'same-origin',
  fetch: (request) => {
    for (const [name, value] of Object.entries(sessionHeader())) request.headers.set(name, value);
    return timedFetch(request);
  },
});

/** The schema of a successful JSON answer: `Answer<'/api/v1/status', 'get'>`. */
export type Answer<Path extends keyof paths, Method extends keyof paths[Path]> = paths[Path][Method] extends {
  responses: infer Responses;
}
  ? {
      [Status in keyof Responses]: Status extends 200 | 201
        ? Responses[Status] extends { content: { 'application/json': infer Body } }
          ? Body
          : never
        : never;
    }[keyof Responses]
  : never;

/** A mistake in one part of a request. In the text of a definition it has a place, both from 1. */
export interface ApiFault {
  readonly path: string;
  readonly message: string;
  readonly line?: number;
  readonly column?: number;
}

/**
 * A refusal of the control API, or the lack of an answer (`status` 0). `message` is a sentence for the person
 * at the screen.
 */
export class ApiError extends Error {
  readonly status: number;
  /** `code` of the problem document. It names the error. */
  readonly code: string;
  /** Mistakes by path of the field, such as `body.settings.endpoints[0].url`. */
  readonly fields: readonly ApiFault[];

  constructor(
    message: string,
    { status = 0, code = 'no_answer', fields = [] as ApiError['fields'] }: Partial<ApiErrorFields> = {},
  ) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.code = code;
    this.fields = fields;
  }
}

type ApiErrorFields = Pick<ApiError, 'status' | 'code' | 'fields'>;

interface ClientResult<Data> {
  readonly data?: Data;
  readonly error?: unknown;
  readonly response: Response;
}

/** The data of a call through `api`. Throws an `ApiError` where the server refuses or cannot be reached. */
export async function answer<Data>(call: Promise<ClientResult<Data>>): Promise<Data> {
  const { data, error, response } = await reached(call);
  if (!response.ok) throw problem(error, response.status);
  return data as Data;
}

/** A record with the version that it was read with. */
export interface Tagged<Data> {
  readonly record: Data;
  /** Version of the record. Sent back as `If-Match`, it prevents overwriting a change of somebody else. */
  readonly tag: string;
}

/** As `answer`, with the ETag. */
export async function taggedAnswer<Data>(call: Promise<ClientResult<Data>>): Promise<Tagged<Data>> {
  const { data, error, response } = await reached(call);
  if (!response.ok) throw problem(error, response.status);
  return { record: data as Data, tag: response.headers.get('etag') ?? '' };
}

/** Turns a failed connection, which rejects with a TypeError in every browser, into an `ApiError`. */
async function reached<Data>(call: Promise<Data>): Promise<Data> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof TypeError) throw new ApiError('The server does not answer. Is it running?');
    throw error;
  }
}

/** The error of an answer outside 2xx. `body`: the content of the answer, whatever its type. */
export function problem(body: unknown, status: number): ApiError {
  if (typeof body !== 'object' || body === null || !('detail' in body)) {
    return new ApiError(`The server answered ${status}.`, { status, code: `status_${status}` });
  }
  const { detail, code, errors } = body as { detail: string; code: string; errors?: ApiError['fields'] };
  return new ApiError(withoutRequests(detail), { status, code, fields: errors ?? [] });
}

/** The detail of an error for a person: parts that name a request for programs are removed. */
function withoutRequests(detail: string): string {
  const parts = detail
    .split(/(?<=[.;]) /)
    .filter((part) => !/\b(GET|POST|PUT|PATCH|DELETE) \/api\//.test(part));
  return parts.length === 0 ? detail : parts.join(' ').replace(/;$/, '.');
}

/** Any failure as one sentence. */
export function sentence(error: unknown): string {
  if (!(error instanceof Error)) return 'Something went wrong.';
  if (!(error instanceof ApiError) || error.fields.length === 0) return error.message;
  return `${error.message} ${error.fields.map(({ path, message }) => `${path.replace(/^(body|query)\./, '')}: ${message}`).join('; ')}`;
}
