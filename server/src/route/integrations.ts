import type { Event } from '../model/event.ts';
import { isObject, type Json, type JsonObject } from '../model/json.ts';

/**
 * Whether an integrations object lets an event through to a destination.
 *
 * The destination's own name decides first, then the name of its type, then `All` (or `all`, as one client spells it).
 * Any value but `false` enables: objects are options. Names are case-sensitive. Without a word on it, it is enabled.
 * service.md "Inbound" rule 5, decisions.md section 1 "integrations".
 */
export function isEnabledBy(integrations: JsonObject, name: string, typeName: string): boolean {
  for (const key of [name, typeName, 'All', 'all']) {
    const word = own(integrations, key);
    if (word !== undefined && word !== null) return word !== false;
  }
  return true;
}

/** The event's integrations object over the one that some clients put into the context. */
export function integrationsOf(event: Event): JsonObject {
  const inContext = own(event.context, 'integrations');
  return isObject(inContext) ? { ...inContext, ...event.integrations } : event.integrations;
}

/** An event can be called `constructor`; what every object inherits is not a word of the client. */
function own(object: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}
