import type { Event } from '../../model/event.ts';
import { isObject, type JsonObject } from '../../model/json.ts';
import type { Format } from './settings.ts';

const EMPTY_OBJECT: JsonObject = {};

/**
 * The body of every request for an event, as compact JSON. Pure: the same event and format give the same
 * bytes, today and after any number of retries, because the event never changes and nothing else goes in.
 *
 * `JSON.stringify(JSON.parse(body)) === body` always holds (spec/specification.md, "Exact bytes"), so a
 * receiver that re-serialises before it verifies gets the bytes that were signed. It holds because
 * `JSON.stringify` made them from parsed values. `fast-path/payload.ts` makes the same bytes from the stored
 * line, without parsing it.
 *
 * - `canonical`: the event as it is stored. It carries no write key because no event does.
 * - `documented`: the fields of the type in the order of spec/specification.md, "Documented format".
 *   `context`, `properties` and `traits` default to `{}`; other absent fields are left out.
 *
 * - `segment`: the event as it is stored, in the shape of the classic webhooks (`segmentPayload`).
 *
 * A delete notification has the same three fields in all of them.
 *
 * @param projectId that of the event's source
 */
export function serializePayload(event: Event, format: Format, projectId = ''): string {
  if (event.type === 'delete' || format === 'documented') return JSON.stringify(documentedPayload(event));
  return JSON.stringify(format === 'canonical' ? event : segmentPayload(event, projectId));
}

/** The types whose events have traits; the others have properties, an alias neither. */
const WITH_TRAITS: readonly string[] = ['identify', 'group'];

/**
 * The event as the classic webhooks of Segment send it, for receivers that read the fields which say how it
 * came: `version`, `channel` and `projectId` stand in the place of the client's own fields of these names.
 */
function segmentPayload(event: Event, projectId: string): object {
  const { type, channel } = event;
  const filled = {
    ...event,
    channel: channel === 'browser' ? 'client' : channel,
    projectId,
    version: 2,
  };
  if (type === 'alias') return filled;
  const key = WITH_TRAITS.includes(type) ? 'traits' : 'properties';
  return filled[key] === undefined ? { ...filled, [key]: EMPTY_OBJECT } : filled;
}

/**
 * One literal per shape with every field written out: the order of the keys is the order read here, absent
 * fields are `undefined` and so left out by `JSON.stringify`, and one shape per type keeps serialising fast.
 */
function documentedPayload(event: Event): object {
  const { type, userId, anonymousId, messageId, name, category, context, timestamp } = event;
  switch (type) {
    case 'identify': {
      const traits = identifyTraits(event);
      return { version: 1, type, userId, anonymousId, messageId, traits, context, timestamp };
    }
    case 'group': {
      const { groupId, traits = EMPTY_OBJECT } = event;
      return { version: 1, type, userId, anonymousId, messageId, groupId, traits, context, timestamp };
    }
    case 'track': {
      const { event: action, properties = EMPTY_OBJECT } = event;
      return {
        version: 1,
        type,
        userId,
        anonymousId,
        messageId,
        event: action,
        properties,
        context,
        timestamp,
      };
    }
    case 'page':
    case 'screen': {
      const properties = type === 'page' ? pageProperties(event) : (event.properties ?? EMPTY_OBJECT);
      return {
        version: 1,
        type,
        userId,
        anonymousId,
        messageId,
        name,
        category,
        properties,
        context,
        timestamp,
      };
    }
    case 'alias':
      return {
        version: 1,
        type,
        'Previous ID': event.previousId,
        // A client without a known user sends only its anonymousId, which is then the identity aliased to.
        'User ID': userId ?? anonymousId,
        anonymousId,
        messageId,
        context,
        timestamp,
      };
    case 'delete':
      return { type, userId, timestamp };
  }
}

/**
 * One library sends the traits of an identify only in its context. They are taken from there when the event's
 * own are absent or an empty object. The context stays as it is.
 */
function identifyTraits({ traits = EMPTY_OBJECT, context }: Event): JsonObject {
  const contextTraits = context.traits;
  return isObject(contextTraits) && Object.keys(traits).length === 0 ? contextTraits : traits;
}

/**
 * Page traits are properties by another name (spec/specification.md, "Documented format"). A client that
 * sends both loses neither; where a key stands in both, the property wins.
 */
function pageProperties({ properties, traits }: Event): JsonObject {
  if (traits === undefined) return properties ?? EMPTY_OBJECT;
  return properties === undefined ? traits : { ...traits, ...properties };
}
