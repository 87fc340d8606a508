import { isObject, type Json, type JsonObject } from '../model/json.ts';

/**
 * The names client libraries give themselves in `context.library.name`, where it is not a server's.
 * analytics-node, -python, -ruby, -go, -php, -java and everything unknown are servers.
 */
const CHANNELS: ReadonlyMap<Json | undefined, string> = new Map([
  ['analytics.js', 'browser'],
  ['analytics-next', 'browser'],
  ['@segment/analytics-next', 'browser'],
  ['RudderLabs JavaScript SDK', 'browser'],
  ['jitsu-js', 'browser'],
  ['analytics-android', 'mobile'],
  ['analytics-ios', 'mobile'],
  ['analytics-kotlin', 'mobile'],
  ['analytics-swift', 'mobile'],
  ['analytics-react-native', 'mobile'],
  ['@segment/analytics-react-native', 'mobile'],
  ['analytics-flutter', 'mobile'],
  ['analytics_flutter', 'mobile'],
]);

/** The library met last as JSON, and its channel: one application sends with one library. */
let lastLibrary = Buffer.alloc(0);
let lastChannel = 'server';

/** The channel of calls with the `context.library` whose JSON stands in `bytes` from `from` to `to`. */
export function channelOfLibrary(bytes: Buffer, from: number, to: number): string {
  if (!isLastLibrary(bytes, from, to)) {
    // A copy, because a piece of a body would keep the whole body in memory.
    lastLibrary = Buffer.from(bytes.subarray(from, to));
    lastChannel = channelOf(undefined, { library: JSON.parse(lastLibrary.toString()) });
  }
  return lastChannel;
}

function isLastLibrary(bytes: Buffer, from: number, to: number): boolean {
  if (lastLibrary.length !== to - from) return false;
  for (let at = from; at < to; at++) if (bytes[at] !== lastLibrary[at - from]) return false;
  return true;
}

/** What the client says, else what its library says, else `server`. */
export function channelOf(said: Json | undefined, context: JsonObject): string {
  if (typeof said === 'string' && said !== '') return said;
  const { library } = context;
  return (isObject(library) && CHANNELS.get(library.name)) || 'server';
}
