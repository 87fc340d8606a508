import { type Preferences, writtenPreferences } from '../../model/consent.ts';
import { type JsonObject, ownValue } from '../../model/json.ts';
import type { Time } from '../../model/time.ts';
import type { ByteReader, ByteWriter } from './byte-codec.ts';

/** The consent of a user, as the newest event said it that said anything. */
export interface ProfileConsent {
  /** Ids of the categories that were consented to, in ascending order. All others count as refused. */
  readonly categories: readonly string[];
  readonly at: Time;
  /** The messageId decides between events of the same time. */
  readonly messageId: string;
}

/** Categories that a profile keeps. An event that consents to more consents to the first of them. */
export const MAX_CATEGORIES = 100;

/** No destination can ask for a category with a longer id. */
const MAX_CATEGORY_LENGTH = 100;

/** The categories that a context consents to; undefined where it names no preferences. */
export function consentedIn(context: JsonObject): readonly string[] | undefined {
  const written = writtenPreferences(context);
  if (written === undefined) return undefined;
  const isKept = (id: string) =>
    ownValue(written, id) === true && id.length <= MAX_CATEGORY_LENGTH && id.isWellFormed();
  return Object.keys(written).filter(isKept).sort();
}

/** Consent as an event says it, and how many of its categories are too many to be kept. */
export function consentOf({
  consented,
  at,
  messageId,
}: {
  readonly consented: readonly string[];
  readonly at: Time;
  readonly messageId: string;
}): { readonly consent: ProfileConsent; readonly leftOut: number } {
  const categories = consented.slice(0, MAX_CATEGORIES);
  return { consent: { categories, at, messageId }, leftOut: consented.length - categories.length };
}

/** The newer of two; the order in which events arrive does not matter. */
export function newerConsent(
  a: ProfileConsent | undefined,
  b: ProfileConsent | undefined,
): ProfileConsent | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return b.at > a.at || (b.at === a.at && b.messageId > a.messageId) ? b : a;
}

/** Consent as the preferences of a call. */
export function asPreferences(consent: Pick<ProfileConsent, 'categories'> | undefined): Preferences {
  if (consent === undefined) return undefined;
  return Object.fromEntries(consent.categories.map((id) => [id, true]));
}

export function writeConsent(writer: ByteWriter, { categories, at, messageId }: ProfileConsent): void {
  writer.time(at);
  writer.text(messageId);
  writer.varint(categories.length);
  for (const id of categories) writer.text(id);
}

export function readConsent(reader: ByteReader): ProfileConsent {
  const at = reader.time();
  const messageId = reader.text();
  const categories: string[] = [];
  for (let left = reader.varint(); left > 0; left--) categories.push(reader.text());
  return { categories, at, messageId };
}
