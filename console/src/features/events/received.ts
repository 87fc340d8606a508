/**
 * Facts that an event holds about its call. Headers and the connection's address are not stored, and nothing
 * is guessed.
 */

interface ReceivedFact {
  readonly name: string;
  readonly value: string;
  /** Origin of the fact, if that is not obvious. */
  readonly note?: string;
}

/** Size of an event as JSON, before the store compresses it. */
export function storedSize(event: object): number {
  return new TextEncoder().encode(JSON.stringify(event)).length;
}

/** The facts of an event that tell how it was sent, in the order in which they are shown. */
export function receivedFacts(event: Readonly<Record<string, unknown>>): ReceivedFact[] {
  const context = objectOf(event['context']);
  const facts: (ReceivedFact | undefined)[] = [
    event['type'] === 'delete' ? undefined : addressOf(context),
    fact('Library', libraryOf(context)),
    fact('User agent', context['userAgent'], 'as the client says'),
    fact('Channel', event['channel']),
    fact('Dated', event['originalTimestamp'], 'by the clock of the client'),
    fact('Sent', event['sentAt'], 'by the clock of the client'),
  ];
  return facts.filter((one) => one !== undefined);
}

/** "analytics.js 2.11.1"; undefined where the call does not say. */
function libraryOf(context: Readonly<Record<string, unknown>>): string | undefined {
  const { name, version } = objectOf(context['library']);
  if (typeof name !== 'string' || name === '') return undefined;
  return typeof version === 'string' && version !== '' ? `${name} ${version}` : name;
}

/**
 * The address in an event. The event does not say who filled it in, and its source may have another rule by
 * now.
 */
function addressOf({ ip }: Readonly<Record<string, unknown>>): ReceivedFact {
  if (typeof ip !== 'string' || ip === '')
    return { name: 'Address', value: 'not kept', note: 'the event has no context.ip' };
  return {
    name: 'Address',
    value: ip,
    note: 'context.ip: said by the client, or where the call came from, by the rule of its source',
  };
}

function fact(name: string, value: unknown, note?: string): ReceivedFact | undefined {
  if (typeof value !== 'string' || value === '') return undefined;
  return note === undefined ? { name, value } : { name, value, note };
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
