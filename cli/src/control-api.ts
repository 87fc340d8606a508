import { readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { distrustOf } from '@millrace/server/file-rights';
import { visible } from '@millrace/server/visible-text';
import { answerText, LongAnswerError } from './answer-text.ts';
import { spoken } from './spoken.ts';

/** Flags that name the server to ask. The environment and the defaults supply absent ones. */
export interface ControlFlags {
  readonly url?: string;
  readonly token?: string;
  readonly data?: string;
}

/** Address and token of a control API. */
export interface ControlAddress {
  readonly url: URL;
  readonly token: string | undefined;
  /** The place where the token was found or looked for, for messages. Never the token itself. */
  readonly tokenFrom: string;
  /** Advice how to give another address or token, as the ends of messages. */
  readonly advice: { readonly url: string; readonly token: string };
}

export type ControlReply =
  | { readonly kind: 'answered'; readonly value: unknown; readonly text: string }
  /**
   * `message` is one line for the person at the terminal, with what to do. `problem` is the server's own
   * answer.
   */
  | { readonly kind: 'failed'; readonly message: string; readonly problem?: ControlProblem };

/** `place`: in the text of a definition. */
export interface ControlFault {
  readonly path: string;
  readonly message: string;
  readonly place?: { readonly line: number; readonly column: number };
}

/** The fields of an RFC 9457 problem that are used here. `code` is one of `spec/errors.json`. */
export interface ControlProblem {
  readonly code: string;
  readonly detail: string;
  readonly errors: readonly ControlFault[];
  /** True when the server found more errors than `errors` lists. */
  readonly truncated: boolean;
}

const DEFAULT_URL = 'http://127.0.0.1:8080';

/** The file name that the server uses. */
const TOKEN_FILE = 'admin-token';

/** Milliseconds to wait for an answer. To a person at a terminal, a slower server looks dead. */
const PATIENCE_MS = 10_000;

/** Where the token of a server is. */
const WHERE_TOKENS_ARE =
  "the server's token is admin.token of its configuration, its MILLRACE_ADMIN_TOKEN, or in the file admin-token of " +
  'its data folder';

const ADVICE: ControlAddress['advice'] = {
  url: 'say where it is with --url or MILLRACE_URL',
  token: `${WHERE_TOKENS_ARE}; give it with --token or MILLRACE_ADMIN_TOKEN, or name that folder with --data`,
};

/**
 * Resolves the address and the token: flags before environment before defaults. Returns a message for
 * unusable values. spec/contract.md, "Environment".
 */
export function controlAddress(flags: ControlFlags, env: NodeJS.ProcessEnv): ControlAddress | string {
  const [written, namedBy] =
    flags.url === undefined ? [env['MILLRACE_URL'], 'MILLRACE_URL'] : [flags.url, '--url'];
  const url = URL.parse(written || DEFAULT_URL);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    return `${namedBy} is no URL of a server, such as ${DEFAULT_URL}`;
  }
  // As the pages about the API write it. Its paths would be looked for below it, and a server that is up be
  // said to have none.
  url.pathname = url.pathname.replace(/\/api(\/v1)?\/?$/, '/');
  const given = givenToken(flags, env);
  if (given.token !== undefined && !/^[!-~]+$/.test(given.token)) {
    return `the token from ${given.tokenFrom} is not one word of visible ASCII, as every token is`;
  }
  return { url, ...given, advice: ADVICE };
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

/**
 * The reason not to trust a token file: it may be somebody else's. Root may use a file of any user. Throws
 * when there is no file.
 */
function distrustOfToken(file: string): string | undefined {
  const user = process.getuid?.();
  const { uid, mode } = statSync(file);
  return distrustOf({ uid: user === 0 ? 0 : uid, mode }, user);
}

/**
 * Reads the token file. A missing file is no error here: the server may not run, and that message should come
 * first.
 */
function tokenIn(file: string): Pick<ControlAddress, 'token' | 'tokenFrom'> {
  try {
    const problem = distrustOfToken(file);
    if (problem !== undefined) return { token: undefined, tokenFrom: `${file}, which ${problem}` };
    const token = readFileSync(file, 'utf8').trim();
    return { token: token === '' ? undefined : token, tokenFrom: file };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    return { token: undefined, tokenFrom: code === 'ENOENT' ? file : `${file} (${code})` };
  }
}

/**
 * Reads one resource of the control API. `path` follows `/api/v1/` and is already encoded. Absent `query`
 * values are left out. Never rejects.
 */
export async function readControl(
  address: ControlAddress,
  path: string,
  query: Readonly<Record<string, string | undefined>> = {},
): Promise<ControlReply> {
  return await askControl(address, path, { method: 'GET', query });
}

/**
 * Sends a request with any method. `body` is sent as JSON; absent `query` values are left out. Never rejects.
 */
export async function askControl(
  address: ControlAddress,
  path: string,
  {
    method,
    query = {},
    body,
    patience = PATIENCE_MS,
  }: {
    readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
    readonly query?: Readonly<Record<string, string | undefined>>;
    readonly body?: object;
    /** Milliseconds to wait for the answer. */
    readonly patience?: number;
  },
): Promise<ControlReply> {
  const target = targetOf(address, path);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) target.searchParams.set(name, value);
  }
  const payload = body === undefined ? null : JSON.stringify(body);
  return await fetchControl(address, target, { method, body: payload, patience });
}

/** Sends a POST to the control API. Never rejects. */
export async function postControl(
  address: ControlAddress,
  path: string,
  body: object,
): Promise<ControlReply> {
  return await askControl(address, path, { method: 'POST', body });
}

/** Exit code of a verb whose request failed: 2 when the server rejects the input as wrong, else 1. */
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
  {
    patience,
    ...payload
  }: { readonly method?: string; readonly body?: string | null; readonly patience: number },
): Promise<ControlReply> {
  const { token } = address;
  let response: Response;
  let text: string;
  try {
    response = await fetch(target, {
      ...payload,
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
      // The token must not follow a redirect to another address.
      redirect: 'manual',
      signal: AbortSignal.timeout(patience),
    });
    text = await answerText(response);
  } catch (error) {
    return failed(whyNoAnswer(address, error, patience));
  }
  return replyIn({ status: response.status, text }, address, target);
}

/** The message for a failed `fetch`, for the person at the terminal. */
export function whyNoAnswer({ url, advice }: ControlAddress, error: unknown, patience = PATIENCE_MS): string {
  if (error instanceof LongAnswerError)
    return `the server at ${url.origin} sends ${error.message}: is it a Millrace? If not, ${advice.url}`;
  const cause = causeOf(error, patience);
  const fault = certificateFault(error, cause);
  if (fault !== undefined)
    return `the certificate of the server at ${url.origin} ${fault.is} (${cause}): ${fault.advice}, or ${advice.url}`;
  if (cause === 'ERR_SSL_WRONG_VERSION_NUMBER')
    return `the server at ${url.origin} does not speak https (${cause}): ask it by http, or ${advice.url}`;
  return `server unreachable at ${url.origin} (${cause}): start it, or ${advice.url}`;
}

/** The fault of a certificate, with advice; undefined when the failure has another cause. */
function certificateFault(
  error: unknown,
  code: string,
): { readonly is: string; readonly advice: string } | undefined {
  if (!/CERT|SIGNATURE|ALTNAME/.test(code)) return undefined;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    const names = namesOfCertificate(error instanceof Error ? error.cause : undefined);
    return { is: `is for another host${names}`, advice: 'have it made for this one' };
  }
  if (code === 'CERT_HAS_EXPIRED' || code === 'CERT_NOT_YET_VALID') {
    const is = code === 'CERT_HAS_EXPIRED' ? 'has expired' : 'is not valid yet';
    return { is, advice: 'renew it, look whether the clock of this machine is right' };
  }
  return { is: 'is not accepted', advice: 'name the file of its authority in NODE_EXTRA_CA_CERTS' };
}

/** A certificate may have thousands of names. */
const SHOWN_NAMES = 200;

/** `, namely DNS:other.example`, where the error of a wrong name has its certificate. */
function namesOfCertificate(cause: unknown): string {
  const { cert } = Object(cause) as { readonly cert?: { readonly subjectaltname?: unknown } };
  const names = cert?.subjectaltname;
  if (typeof names !== 'string') return '';
  return `, namely ${visible(names.length > SHOWN_NAMES ? `${names.slice(0, SHOWN_NAMES)}…` : names)}`;
}

/** Turns an HTTP answer into a reply. */
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
  if (elsewhere !== undefined) return failed(`${target.origin}: ${lineOf(elsewhere)}: ${address.advice.url}`);
  return failed(
    `${target.href} answered ${response.status}${detailIn(value)}: ` +
      `is it a Millrace, and of the version of this program? If so, its log says more; if not, ${address.advice.url}`,
  );
}

function whyRefused({ url, token, tokenFrom, advice }: ControlAddress): string {
  return token === undefined
    ? `the server at ${url.origin} wants a token, and there is none in ${tokenFrom}: ${advice.token}`
    : `the server at ${url.origin} refused the token from ${tokenFrom}: ${advice.token}`;
}

function failed(message: string): ControlReply {
  return { kind: 'failed', message: visible(message) };
}

/** Error codes such as `ECONNREFUSED` stand in the cause of the error that `fetch` throws. */
function causeOf(error: unknown, patience: number): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return `waited ${patience / 1000} s`;
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

/** Error codes that another version of Millrace, or another program, may answer with too. */
const DOUBTFUL: readonly string[] = ['not_found', 'method_not_allowed', 'internal_error'];

/** The problem in an answer of the control API, which also proves that Millrace answered. */
function problemIn(value: unknown): ControlProblem | undefined {
  if (typeof value !== 'object' || value === null || !('code' in value) || !('detail' in value))
    return undefined;
  const { code, detail } = value;
  if (typeof code !== 'string' || DOUBTFUL.includes(code)) return undefined;
  const listed: readonly unknown[] = 'errors' in value && Array.isArray(value.errors) ? value.errors : [];
  const errors = listed.map((one) => {
    const { path, message, line, column } = Object(one) as Readonly<Record<string, unknown>>;
    const place = typeof line === 'number' && typeof column === 'number' ? { place: { line, column } } : {};
    return { path: String(path), message: String(message), ...place };
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
  return errors
    .map(({ path, message }) => `${path.replace(/^(body|query)\.?/, '')}: ${spoken(message)}`)
    .join('; ');
}

/** A sentence of the API as a part of one of our lines. */
function lineOf(detail: string): string {
  return spoken(detail).replace(/\.$/, '');
}

/** The hint with which a receiving port names the control API's address. */
function whereElse(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || !('message' in value)) return undefined;
  return /admin\.port/.exec(String(value.message)) === null ? undefined : String(value.message);
}

/** The detail of an RFC 9457 problem, as the end of a sentence. */
function detailIn(value: unknown): string {
  const has =
    typeof value === 'object' && value !== null && 'detail' in value && typeof value.detail === 'string';
  return has ? ` (${value.detail})` : '';
}
