import { expect } from 'vitest';
import { carriesCalls, type FaultProxy, type Proxied } from '../support/fault-proxy.ts';
import { CALLS, eventsIn, type WireEvent } from './calls.ts';
import type { Facts, Outcome } from './client.ts';
import { RETRY_AFTER } from './faults.ts';

/** One message as it went over the wire, with every request that carried it. */
export interface Message {
  readonly event: WireEvent;
  readonly requests: readonly Proxied[];
  /** How often the server has said that it has it. */
  readonly taken: number;
}
export type Messages = ReadonlyMap<string, Message>;

export function messagesThrough(proxy: FaultProxy): Messages {
  const messages = new Map<string, Message>();
  for (const request of proxy.requests.filter(carriesCalls)) {
    for (const event of eventsIn(request.body)) {
      const { requests = [], taken = 0, event: first = event } = messages.get(event.messageId) ?? {};
      messages.set(event.messageId, {
        // As the server took it first: only `sentAt` and a count of tries may differ later.
        event: taken > 0 ? first : event,
        requests: [...requests, request],
        taken: taken + (request.serverStatus === 200 ? request.answers : 0),
      });
    }
  }
  return messages;
}

/** One before the page was left, one after it was loaded again; there may be more. */
const LEAST_RELOADED = 2;

/** The facts about the messages that the fault hit. They must be the same for all types of call. */
export function factsOf(messages: Messages, victims: ReadonlySet<string>, outcome: Outcome): Facts {
  const { reported, reloaded } = outcome;
  const [victim, ...others] = [...victims].map((id) => messages.get(id)!);
  if (victim === undefined) throw new Error('the client has sent nothing');
  const types = [...messages.values()].map(({ event }) => event.type);
  expect(types.sort()).toEqual(CALLS.map(({ type }) => type).sort());
  for (const { requests, taken } of others) {
    expect([requests.length, taken]).toEqual([victim.requests.length, victim.taken]);
  }
  const [first, second] = victim.requests;
  const told = [victim, ...others].map(({ event }) => reported.has(event.type));
  expect(new Set(told).size).toBe(1);
  return {
    // How often a page that is left tries once more, or the next one does, is a race within the library.
    tries: reloaded ? Math.min(victim.requests.length, LEAST_RELOADED) : victim.requests.length,
    ...(victim.taken === 0 ? { lost: true } : {}),
    ...(told[0] ? { told: true } : {}),
    ...(reloaded ? { reloaded: true } : {}),
    ...(status(first) === 429 && second !== undefined && second.at - first!.at < RETRY_AFTER * 1000 - 50
      ? { hasty: true }
      : {}),
  };
}

function status(request: Proxied | undefined): number | undefined {
  return request?.fault.kind === 'answer' ? request.fault.status : undefined;
}
