import type { Answer } from './respond.ts';

/** The smallest GIF there is: one transparent point. */
const GIF = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64');

/** The only answer of the pixel, whatever became of the call. decisions.md section 1, "overload". */
export const PIXEL: Answer = {
  status: 200,
  // A cached image would be a call that never arrives.
  headers: [
    ...['Content-Type', 'image/gif', 'Content-Length', String(GIF.length)],
    ...['Cache-Control', 'no-store, no-cache, must-revalidate, private', 'Access-Control-Allow-Origin', '*'],
  ],
  body: GIF,
};

/** Deeper keys are left out; no call has a use for them. */
const DEEPEST_KEY = 20;

/**
 * The call in the query of a pixel, as a body: `data` is JSON in base64 (also the URL-safe kind, also without padding);
 * without it every key is a path into the call, such as `properties.subject`. Not yet parsed or checked: what is wrong
 * with it is found where bodies are parsed.
 */
export function bodyInQuery(query: string): Buffer {
  const parameters = new URLSearchParams(query);
  const data = parameters.get('data');
  // A plus sign of base64 that was not percent-encoded has become a blank.
  if (data !== null) return Buffer.from(data.replaceAll(' ', '+'), 'base64');
  const call = newGroup();
  for (const [key, text] of parameters) put(call, key, text);
  return Buffer.from(JSON.stringify(call));
}

/** Without a prototype, so that no key means anything to the language. */
interface Group {
  [key: string]: string | boolean | Group;
}

function newGroup(): Group {
  return Object.create(null) as Group;
}

/** The last of two keys that contradict each other wins; `a` and `a.b` do. */
function put(call: Group, key: string, text: string): void {
  const names = key.split('.');
  const last = names.pop();
  if (last === undefined || names.length >= DEEPEST_KEY) return;
  let group = call;
  for (const name of names) {
    const found = group[name];
    const next = typeof found === 'object' ? found : newGroup();
    group[name] = next;
    group = next;
  }
  group[last] = isSwitch(key) ? switchOf(text) : text;
}

/** A query knows only text, and in the integrations object the text `false` would switch a destination on. */
function isSwitch(key: string): boolean {
  return /^(context\.)?integrations\.|^context\.direct$/.test(key);
}

function switchOf(text: string): string | boolean {
  if (text === 'true') return true;
  return text === 'false' ? false : text;
}
