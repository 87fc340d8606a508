/** What an event says of the call that it was made from. Nothing here is guessed: a call's headers and address are not kept. */

interface ReceivedFact {
  readonly name: string;
  readonly value: string;
  /** Where it comes from, where that is not plain. */
  readonly note?: string;
}

/** Bytes of an event as JSON, which is the form it is stored in before it is compressed. */
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

/** An event does not tell who has filled in the address, and its source may have another rule for addresses by now. */
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
