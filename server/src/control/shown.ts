import type { Json, JsonObject } from '../model/json.ts';
import { type Mask, maskOf, type ShownSettings, withoutSecrets } from '../model/secrets.ts';
import { shownUrl } from '../model/shown-url.ts';
import type { DestinationRecord, SourceRecord, TokenRecord } from '../ports/settings.ts';
import { durationText } from './duration.ts';

/** A source as the configuration file has it. contract.md sections 3 and 4. */
export type ShownSource = Omit<SourceRecord, 'dedupeWindow'> & { readonly dedupeWindow?: string };

/** A destination as the configuration file has it, with something in the place of its secrets. */
export type ShownDestination<Secret = Mask> = Omit<DestinationRecord, 'settings' | 'pauses'> & {
  readonly settings: ShownSettings<Secret>;
};

export interface ShownToken {
  readonly name: string;
  readonly role: TokenRecord['role'];
  readonly hint: string;
  readonly createdAt: string;
}

/** Keys in the order of the file, and nothing that a later version of the store may add. */
export function shownSource(source: SourceRecord): ShownSource {
  const { name, writeKeys, enabled, mode, whenDisabled, dedupeWindow, rateLimit } = source;
  return {
    ...{ name, writeKeys, enabled, mode, whenDisabled },
    ...(dedupeWindow === undefined ? {} : { dedupeWindow: durationText(dedupeWindow) }),
    ...(rateLimit === undefined ? {} : { rateLimit }),
  };
}

export function shownDestination(destination: DestinationRecord): ShownDestination {
  return shownWith(destination, maskOf, shownUrl);
}

/** With its secrets, as a program checks it and nobody sees it. */
export function wholeDestination(destination: DestinationRecord): ShownDestination<string> {
  const asItIs = (text: string) => text;
  return shownWith(destination, asItIs, asItIs);
}

export function shownToken({ name, role, hint, createdAt }: TokenRecord): ShownToken {
  return { name, role, hint, createdAt: new Date(createdAt).toISOString() };
}

function shownWith<Secret>(
  { name, type, sources, enabled, paused, settings }: DestinationRecord,
  instead: (secret: string) => Secret,
  urlOf: (url: string) => string,
): ShownDestination<Secret> {
  // Said only when it is so: a file that says nothing of it pauses nothing and resumes nothing.
  const held = paused === true ? { paused } : {};
  return { name, type, sources, enabled, ...held, settings: withoutSecrets(settings, instead, urlOf) };
}

/** What is shown is JSON: undefined nowhere, and no class. */
export function asJson(shown: ShownSource | ShownDestination | ShownToken): JsonObject {
  return JSON.parse(JSON.stringify(shown)) as Json as JsonObject;
}
