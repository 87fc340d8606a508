import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { visible } from '@millrace/server/visible-text';

/** What the command line says about the server to ask; absent is left to the environment and the defaults. */
export interface ControlFlags {
  readonly url?: string;
  readonly token?: string;
  readonly data?: string;
}

/** Who is asked, and with what. */
export interface ControlAddress {
  readonly url: URL;
  readonly token: string | undefined;
  /** Where the token came from, or where one was looked for; for messages. Never the token itself. */
  readonly tokenFrom: string;
}

export type ControlReply =
  | { readonly kind: 'answered'; readonly value: unknown; readonly text: string }
  /** `message` is one line for whoever sits at the terminal; it says what to do. `problem`: what the server itself says. */
  | { readonly kind: 'failed'; readonly message: string; readonly problem?: ControlProblem };

/** RFC 9457, as far as it is of use here. `code` is one of `spec/errors.json`. */
export interface ControlProblem {
  readonly code: string;
  readonly detail: string;
  readonly errors: readonly { readonly path: string; readonly message: string }[];
  /** More is wrong than `errors` says. */
  readonly truncated: boolean;
}

const DEFAULT_URL = 'http://127.0.0.1:8080';

/** The same name as the server writes. */
const TOKEN_FILE = 'admin-token';

/** A server that takes longer is as good as gone for somebody who waits at a terminal. */
const PATIENCE_MS = 10_000;

const WHERE_TOKENS_ARE =
  "the server's token is admin.token of its configuration, its MILLRACE_ADMIN_TOKEN, or in the file admin-token of " +
  'its data folder; give it with --token or MILLRACE_ADMIN_TOKEN, or name that folder with --data';

/**
 * Flags before environment before defaults. What cannot be used comes back as a message.
 * spec/contract.md, "Environment".
 */
export function controlAddress(flags: ControlFlags, env: NodeJS.ProcessEnv): ControlAddress | string {
  const [written, namedBy] =
    flags.url === undefined ? [env['MILLRACE_URL'], 'MILLRACE_URL'] : [flags.url, '--url'];
  const url = URL.parse(written || DEFAULT_URL);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    return `${namedBy} is no URL of a server, such as ${DEFAULT_URL}`;
  }
  const given = givenToken(flags, env);
  if (given.token !== undefined && !/^[!-~]+$/.test(given.token)) {
    return `the token from ${given.tokenFrom} is not one word of visible ASCII, as every token is`;
  }
  return { url, ...given };
}

function givenToken(
  flags: ControlFlags,
  env: NodeJS.ProcessEnv,
): Pick<ControlAddress, 'token' | 'tokenFrom'> {
  if (flags.token !== undefined) return { token: flags.token, tokenFrom: '--token' };
  const fromEnv = env['MILLRACE_ADMIN_TOKEN'];
  if (fromEnv) return { token: fromEnv, tokenFrom: 'MILLRACE_ADMIN_TOKEN' };
  return tokenIn(resolve(join(flags.data ?? (env['MILLRACE_DATA'] || './data'), TOKEN_FILE)));
}

/** A missing file is no error yet: the server may not run at all, which is what should be said then. */
function tokenIn(file: string): Pick<ControlAddress, 'token' | 'tokenFrom'> {
  try {
    const token = readFileSync(file, 'utf8').trim();
    return { token: token === '' ? undefined : token, tokenFrom: file };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    return { token: undefined, tokenFrom: code === 'ENOENT' ? file : `${file} (${code})` };
  }
}

/**
 * Reads one resource of the control API; `path` is what stands behind `/api/v1/`, encoded. What is absent in `query` is
 * left out. Never rejects.
 */
export async function readControl(
  address: ControlAddress,
  path: string,
  query: Readonly<Record<string, string | undefined>> = {},
): Promise<ControlReply> {
  return await askControl(address, path, { method: 'GET', query });
}

/** A request of any kind; `body` goes out as JSON. What is absent in `query` is left out. Never rejects. */
export async function askControl(
  address: ControlAddress,
  path: string,
  {
    method,
    query = {},
    body,
  }: {
    readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
    readonly query?: Readonly<Record<string, string | undefined>>;
    readonly body?: object;
  },
): Promise<ControlReply> {
  const target = targetOf(address, path);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) target.searchParams.set(name, value);
  }
  const payload = { method, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
  return await fetchControl(address, target, payload);
}

/** Asks the control API to do something. Never rejects. */
export async function postControl(
  address: ControlAddress,
  path: string,
  body: object,
): Promise<ControlReply> {
  return await askControl(address, path, { method: 'POST', body });
}

/** How a verb ends whose request was not answered as wished: 2 where what was typed makes no sense to the server. */
export function exitCodeOf({ problem }: Extract<ControlReply, { kind: 'failed' }>): 1 | 2 {
  return problem?.code === 'invalid_parameters' ? 2 : 1;
}

/** The URL of a resource. */
export function targetOf({ url }: ControlAddress, path: string): URL {
  const target = new URL(url.origin);
  target.pathname = `${url.pathname.replace(/\/+$/, '')}/api/v1/${path}`;
  return target;
}

async function fetchControl(
  address: ControlAddress,
  target: URL,
  payload: { readonly method?: string; readonly body?: string },
): Promise<ControlReply> {
  const { token } = address;
  let response: Response;
  let text: string;
  try {
    response = await fetch(target, {
      ...payload,
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
      // The token is for this address only.
      redirect: 'manual',
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    text = await response.text();
  } catch (error) {
    return failed(whyNoAnswer(address, error));
  }
  return replyIn({ status: response.status, text }, address, target);
}

/** What a failed `fetch` means for whoever sits at the terminal. */
export function whyNoAnswer({ url }: ControlAddress, error: unknown): string {
  return `server unreachable at ${url.origin} (${causeOf(error)}): start it, or say where it is with --url or MILLRACE_URL`;
}

/** What an answer means. */
export function replyIn(
  response: { readonly status: number; readonly text: string },
  address: ControlAddress,
  target: URL,
): ControlReply {
  const { text } = response;
  if (response.status === 401) return failed(whyRefused(address));
  const value = parsed(text);
  if ((response.status === 200 || response.status === 201) && value !== undefined)
    return { kind: 'answered', value, text };
  if (response.status === 204) return { kind: 'answered', value: undefined, text };
  const problem = problemIn(value);
  if (problem !== undefined) return { kind: 'failed', message: visible(messageOf(problem)), problem };
  const elsewhere = whereElse(value);
  if (elsewhere !== undefined)
    return failed(`${target.origin}: ${lineOf(elsewhere)}: say where with --url or MILLRACE_URL`);
  return failed(
    `${target.href} answered ${response.status}${detailIn(value)}: ` +
      'is it a Millrace, and of the version of this program? If so, its log says more',
  );
}

function whyRefused({ url, token, tokenFrom }: ControlAddress): string {
  return token === undefined
    ? `the server at ${url.origin} wants a token, and there is none in ${tokenFrom}: ${WHERE_TOKENS_ARE}`
    : `the server at ${url.origin} refused the token from ${tokenFrom}: ${WHERE_TOKENS_ARE}`;
}

function failed(message: string): ControlReply {
  return { kind: 'failed', message: visible(message) };
}

/** `ECONNREFUSED` and its like stand in the cause of what `fetch` throws. */
function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return `waited ${PATIENCE_MS / 1000} s`;
  const { cause } = error;
  if (cause instanceof Error && 'code' in cause) return String(cause.code);
  return cause instanceof Error ? cause.message : error.message;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** These may come from a Millrace of another version, or from no Millrace at all. */
const DOUBTFUL: readonly string[] = ['not_found', 'method_not_allowed', 'internal_error'];

/** What was wrong with what was asked, where the control API says it: then there is no doubt who answered. */
function problemIn(value: unknown): ControlProblem | undefined {
  if (typeof value !== 'object' || value === null || !('code' in value) || !('detail' in value))
    return undefined;
  const { code, detail } = value;
  if (typeof code !== 'string' || DOUBTFUL.includes(code)) return undefined;
  const listed: readonly unknown[] = 'errors' in value && Array.isArray(value.errors) ? value.errors : [];
  const errors = listed.map((one) => {
    const { path, message } = Object(one) as { path?: unknown; message?: unknown };
    return { path: String(path), message: String(message) };
  });
  return {
    code,
    detail: String(detail),
    errors,
    truncated: 'truncated' in value && value.truncated === true,
  };
}

function messageOf({ code, detail, errors }: ControlProblem): string {
  if (code !== 'invalid_parameters' || errors.length === 0) return lineOf(detail);
  return errors.map(({ path, message }) => `${path.replace(/^(body|query)\.?/, '')}: ${message}`).join('; ');
}

/** A sentence as part of a line of ours. */
function lineOf(detail: string): string {
  return detail.replace(/\.$/, '');
}

/** The hint of a receiving port that says where the control API is. */
function whereElse(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || !('message' in value)) return undefined;
  return /admin\.port/.exec(String(value.message)) === null ? undefined : String(value.message);
}

/** What a problem of RFC 9457 says, as the end of a sentence. */
function detailIn(value: unknown): string {
  const has =
    typeof value === 'object' && value !== null && 'detail' in value && typeof value.detail === 'string';
  return has ? ` (${value.detail})` : '';
}
