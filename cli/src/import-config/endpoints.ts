import { recordFaults } from '@millrace/server/config';
import { PRODUCT } from './product.ts';
import { type Hook, textOf } from './workspace.ts';

/** A URL with headers as a record has them. */
export interface Endpoint {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface Endpoints {
  readonly endpoints: readonly Endpoint[];
  /** The user agent that a header of theirs asks for. */
  readonly userAgent?: string;
  /** Differences from there, in words, by which requests would be others. */
  readonly losses: readonly string[];
  /** Mendings that change no request. */
  readonly notes: readonly string[];
}

/** A secret as an export masks it: bullets or stars, and its end. */
export function isMasked(text: string): boolean {
  return /^[•●*]{6,}/.test(text.trim());
}

/** The endpoints for some hooks, each URL with its headers once, and at most as many as a destination has. */
export function endpointsOf(hooks: readonly Hook[]): Endpoints {
  const found = new Map<string, Endpoint>();
  const losses: string[] = [];
  const notes: string[] = [];
  const { agent: userAgent, rest } = withoutAgent(hooks, losses);
  for (const hook of rest) {
    const made = endpointOf(hook, losses, notes);
    if (made === undefined) continue;
    const key = JSON.stringify(made);
    const bare = JSON.stringify({ url: made.url, headers: {} });
    // A URL that stands twice, once with headers: the classic settings have two places for one.
    const other = found.has(key) ? key : found.has(bare) ? bare : undefined;
    if (other !== undefined || [...found.values()].some((one) => one.url === made.url && isBare(made)))
      notes.push(`${made.url} stands there more than once, and once here`);
    if (other === bare) found.delete(bare);
    if (isBare(made) && [...found.values()].some((one) => one.url === made.url)) continue;
    found.set(key, made);
    if (found.size > PRODUCT.maxEndpoints) {
      found.delete(key);
      losses.push(`${made.url} is left out: a destination has at most ${PRODUCT.maxEndpoints} URLs`);
    }
  }
  const endpoints = [...found.values()];
  return { endpoints, losses, notes, ...(userAgent === undefined ? {} : { userAgent }) };
}

/** Takes the user agent out of the headers: it is a setting of the whole destination. */
function withoutAgent(
  hooks: readonly Hook[],
  losses: string[],
): { readonly agent: string | undefined; readonly rest: readonly Hook[] } {
  const isAgent = ({ name }: Hook['headers'][number]) => textOf(name)?.trim().toLowerCase() === 'user-agent';
  const agents = new Set(
    hooks.flatMap(({ headers }) => headers.filter(isAgent).map(({ value }) => textOf(value) ?? '')),
  );
  if (agents.size === 0) return { agent: undefined, rest: hooks };
  const [agent = ''] = agents;
  const everywhere = hooks.filter(({ url }) => url !== '').every(({ headers }) => headers.some(isAgent));
  const isUsable = agents.size === 1 && everywhere && /^[!-~](?:[ -~]{0,198}[!-~])?$/.test(agent);
  if (!isUsable) losses.push('its User-Agent: here it is one for all URLs of a destination');
  const rest = hooks.map((hook) => ({ ...hook, headers: hook.headers.filter((row) => !isAgent(row)) }));
  return { agent: isUsable ? agent : undefined, rest };
}

function isBare({ headers }: Endpoint): boolean {
  return Object.keys(headers).length === 0;
}

function endpointOf({ url, headers }: Hook, losses: string[], notes: string[]): Endpoint | undefined {
  const written = textOf(url)?.trim();
  if (url !== undefined && url !== null && written === undefined) {
    losses.push('a URL that is computed for each event');
    return undefined;
  }
  if (written === undefined || written === '') return undefined;
  const address = addressOf(written, losses, notes);
  const problem = recordFaults('endpoint', { url: address.url, headers: {} })[0];
  if (problem !== undefined) {
    losses.push(`the URL ${written.slice(0, 200)} ${problem.message}`);
    return undefined;
  }
  const own = headersOf(headers, losses, notes);
  const isSignedIn = Object.keys(own).some((name) => name.toLowerCase() === 'authorization');
  if (address.basic === undefined || isSignedIn) return { url: address.url, headers: own };
  notes.push(`user name and password of ${address.url} are its header Authorization`);
  return { url: address.url, headers: { ...own, Authorization: address.basic } };
}

/** The URL without what is never sent: a fragment, and a user name, which becomes a header. */
function addressOf(written: string, losses: string[], notes: string[]): { url: string; basic?: string } {
  let url = written;
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(url)) {
    url = `https://${url.replace(/^\/+/, '')}`;
    losses.push(`${written.slice(0, 200)} has no scheme there: it is taken for ${url.slice(0, 200)}`);
  }
  const fragment = url.indexOf('#');
  if (fragment >= 0) {
    url = url.slice(0, fragment);
    notes.push(`the fragment of ${url} is left out: it is never sent`);
  }
  const [, scheme = '', user, rest = ''] = /^([a-z]+:\/\/)([^/?#@\\\s]*)@(.*)$/i.exec(url) ?? [];
  if (user === undefined) return { url };
  const basic = Buffer.from(decoded(user)).toString('base64');
  return { url: `${scheme}${rest}`, basic: `Basic ${basic}` };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function headersOf(rows: Hook['headers'], losses: string[], notes: string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  const seen = new Map<string, string>();
  for (const { name: writtenName, value: writtenValue } of rows) {
    const [name, value] = [textOf(writtenName)?.trim() ?? '', textOf(writtenValue)];
    if (name === '' && (value ?? '') === '') {
      notes.push('an empty row of headers is left out');
      continue;
    }
    const lower = name.toLowerCase();
    if (lower === 'content-type' && /^application\/json\b/i.test(value ?? '')) continue;
    if (seen.has(lower) && seen.get(lower) === value) continue;
    const problem = headerProblem(name, value, seen);
    if (problem !== undefined) losses.push(problem);
    else {
      seen.set(lower, value!);
      headers[name] = value!;
    }
  }
  return headers;
}

/** The reason why a header cannot stand beside those before it. */
function headerProblem(
  name: string,
  value: string | undefined,
  seen: ReadonlyMap<string, string>,
): string | undefined {
  const shown = `the header ${name.slice(0, 100)}`;
  if (value === undefined) return `${shown} is computed for each event`;
  if (isMasked(value)) return `the value of ${shown} is masked`;
  if (name === '__proto__') return `${shown} is not a possible key of a file`;
  if (seen.has(name.toLowerCase())) return `${shown} is given twice`;
  if (seen.size >= PRODUCT.maxHeaders) return `${shown} is left out: a URL has at most ${PRODUCT.maxHeaders}`;
  const [fault] = recordFaults('endpoint', { url: 'https://example.com', headers: { [name]: value } });
  return fault === undefined ? undefined : `${shown} ${fault.message}`;
}
