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

/** What the client says, else what its library says, else `server`. */
export function channelOf(said: Json | undefined, context: JsonObject): string {
  if (typeof said === 'string' && said !== '') return said;
  const { library } = context;
  return (isObject(library) && CHANNELS.get(library.name)) || 'server';
}
