import type { Event } from '../../model/event.ts';
import { isObject, type Json } from '../../model/json.ts';
import { type Duration, HOUR, MINUTE, SECOND } from '../../model/time.ts';
import type { ComparisonRule } from './contract.ts';

/** Rules that hold; the others are switched off. */
export type RulesInForce = ReadonlySet<ComparisonRule>;

/** The time after which no service tries a call again. */
export const RETRIES_OVER: Duration = 4 * HOUR + 15 * MINUTE;

const TRANSPORT: ReadonlySet<string> = new Set([
  ...['receivedAt', 'originalReceivedAt', 'version', 'projectId', 'writeKey', '_metadata', 'channel'],
]);

const TIMES: ReadonlySet<string> = new Set(['timestamp', 'originalTimestamp', 'sentAt']);

/** Two events of one call: that of the service that is to be replaced, and ours. */
export interface EventPair {
  readonly there: Event;
  readonly here: Event;
}

/** The paths of the fields that differ, such as `properties.price`; a list is one field. In their order. */
export function differencesOf({ there, here }: EventPair, rules: RulesInForce): string[] {
  const found: string[] = [];
  for (const key of keysOf(there, here)) {
    if (rules.has('transport') && TRANSPORT.has(key)) continue;
    const pair = [there[key], here[key]] as const;
    if (TIMES.has(key) ? isSameTime(key, { there, here }, rules) : isSame(pair, rules)) continue;
    if (key === 'context' && rules.has('addresses') && isUnknownIpv6({ there, here }))
      found.push(...pathsOf(key, [pair[0], withoutAddress(pair[1])], rules));
    else found.push(...pathsOf(key, pair, rules));
  }
  return found;
}

type Pair = readonly [Json | undefined, Json | undefined];

function pathsOf(path: string, [there, here]: Pair, rules: RulesInForce): string[] {
  if (!isObject(there) || !isObject(here)) return isSame([there, here], rules) ? [] : [path];
  return keysOf(there, here).flatMap((key) => {
    const pair = [there[key], here[key]] as const;
    return isSame(pair, rules) ? [] : pathsOf(`${path}.${key}`, pair, rules);
  });
}

function keysOf(there: object, here: object): string[] {
  return [...new Set([...Object.keys(there), ...Object.keys(here)])];
}

function isSame([there, here]: Pair, rules: RulesInForce): boolean {
  if (there === here) return true;
  if (rules.has('nulls') && (there ?? undefined) === (here ?? undefined)) return true;
  if (rules.has('numbers') && isSameNumber(there, here)) return true;
  if (Array.isArray(there) && Array.isArray(here))
    return there.length === here.length && there.every((one, nth) => isSame([one, here[nth]], rules));
  if (!isObject(there) || !isObject(here)) return false;
  return keysOf(there, here).every((key) => isSame([there[key], here[key]], rules));
}

/** An integer that no number can hold is a text of its digits on one side, and rounded on the other. */
function isSameNumber(there: Json | undefined, here: Json | undefined): boolean {
  const [number, text] = typeof there === 'number' ? [there, here] : [here, there];
  if (typeof number !== 'number' || typeof text !== 'string' || Number.isSafeInteger(number)) return false;
  return /^-?\d+$/.test(text) && Number(text) === number;
}

function isSameTime(key: string, { there, here }: EventPair, rules: RulesInForce): boolean {
  const [one, other] = [there[key], here[key]];
  if (one === other) return true;
  if (rules.has('nulls') && (one ?? undefined) === (other ?? undefined)) return true;
  const apart = Math.abs(timeOf(one) - timeOf(other));
  if (rules.has('timeForms') && apart === 0) return true;
  if (key !== 'timestamp' || !rules.has('timestamp')) return false;
  return apart <= Math.abs(arrivalOf(there) - arrivalOf(here)) + SECOND;
}

function timeOf(value: unknown): number {
  return typeof value === 'string' ? Date.parse(value) : Number.NaN;
}

/** When the service that the event is of got the call: one that was forwarded has got here later. */
function arrivalOf({ originalReceivedAt, receivedAt }: Event): number {
  const first = timeOf(originalReceivedAt);
  return Number.isNaN(first) ? timeOf(receivedAt) : first;
}

function isUnknownIpv6({ there, here }: EventPair): boolean {
  const known = there.context['ip'];
  const own = here.context['ip'];
  return (known === undefined || known === null) && typeof own === 'string' && own.includes(':');
}

function withoutAddress(context: Json | undefined): Json | undefined {
  if (!isObject(context)) return context;
  const { ip: _, ...rest } = context;
  return rest;
}
