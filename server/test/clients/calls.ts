/** The task of every client: one call of each type, the same for all. */
export interface Call {
  readonly type: CallType;
  /** For the libraries that take one object a call; `userId` is added. */
  readonly fields: Readonly<Record<string, unknown>>;
}

export type CallType = 'identify' | 'track' | 'page' | 'screen' | 'group' | 'alias';

export const CALLS: readonly Call[] = [
  { type: 'identify', fields: { traits: { plan: 'pro', seats: 4, address: { city: 'Zürich' } } } },
  {
    type: 'track',
    fields: {
      event: 'Order Placed',
      properties: { total: '19.99', count: 3, coupon: null, items: ['a', 'b'], note: 'naïve 🙂 "quoted"' },
    },
  },
  { type: 'page', fields: { name: 'Home', category: 'Docs', properties: { variant: 'B' } } },
  { type: 'screen', fields: { name: 'Start', properties: { first: true } } },
  { type: 'group', fields: { groupId: 'g-1', traits: { name: 'Initech', employees: 329 } } },
  { type: 'alias', fields: { previousId: 'a-before' } },
];

/** An event as a client put it on the wire, its batch's `sentAt` included. */
export type WireEvent = Readonly<Record<string, unknown>> & {
  readonly type: CallType;
  readonly messageId: string;
};

/** The events in the body of a request, single or a batch. */
export function eventsIn(body: Buffer): readonly WireEvent[] {
  const parsed = JSON.parse(body.toString('utf8')) as Record<string, unknown>;
  const items = (Array.isArray(parsed['batch']) ? parsed['batch'] : [parsed]) as WireEvent[];
  return items.map((item) => ({ sentAt: parsed['sentAt'], ...item }));
}

/**
 * The documented webhook body of an event, written down from spec/specification.md, "Documented format" and
 * not with the server's code: the keys in their order. The server's `timestamp` is not known here and is left
 * out.
 */
export function documented(event: WireEvent): readonly (readonly [key: string, value: unknown])[] {
  const { type } = event;
  const entries: [string, unknown][] =
    type === 'alias'
      ? [
          ['Previous ID', event['previousId']],
          ['User ID', event['userId']],
        ]
      : [['userId', event['userId']]];
  entries.push(['anonymousId', event['anonymousId']], ['messageId', event.messageId]);
  if (type === 'track') entries.push(['event', event['event']]);
  if (type === 'group') entries.push(['groupId', event['groupId']]);
  if (type === 'page' || type === 'screen') {
    entries.push(['name', event['name']], ['category', event['category']]);
  }
  if (type === 'track' || type === 'page' || type === 'screen') {
    entries.push(['properties', event['properties'] ?? {}]);
  }
  if (type === 'identify' || type === 'group') entries.push(['traits', event['traits'] ?? {}]);
  entries.push(['context', event['context'] ?? {}]);
  const present = entries.filter(([, value]) => value !== undefined && value !== null);
  return [['version', 1], ['type', type], ...present];
}
