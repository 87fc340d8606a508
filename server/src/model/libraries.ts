import { isObject, type Json, type JsonObject } from './json.ts';

/**
 * The libraries that run in browsers and on phones, by what they call themselves in `context.library.name`.
 * analytics-node, -python, -ruby, -go, -php, -java and all unknown libraries run on servers.
 */
const CLIENT_LIBRARIES: ReadonlyMap<Json | undefined, 'browser' | 'mobile'> = new Map([
  ['analytics.js', 'browser'],
  ['analytics-next', 'browser'],
  ['@segment/analytics-next', 'browser'],
  ['@millrace/client/browser', 'browser'],
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

/** The channel that the client names, else that of its library, else `server`. */
export function channelOf(said: Json | undefined, context: JsonObject): string {
  if (typeof said === 'string' && said !== '') return said;
  return clientLibraryIn(context) ?? 'server';
}

/**
 * Whether the library of a call runs in a browser or on a phone, so that whoever sends the request is the
 * user.
 */
export function isClientLibrary(context: JsonObject): boolean {
  return clientLibraryIn(context) !== undefined;
}

function clientLibraryIn({ library }: JsonObject): 'browser' | 'mobile' | undefined {
  return isObject(library) ? CLIENT_LIBRARIES.get(library.name) : undefined;
}
