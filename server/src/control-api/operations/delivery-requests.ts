import * as z from 'zod';
import type { Destination } from '../../model/destination.ts';
import { defined } from '../../model/json.ts';
import { destinationOfLane, endpointIndexOfLane, type Target } from '../../model/lane.ts';
import { hasRole } from '../../model/settings.ts';
import { isoTime, type Time } from '../../model/time.ts';
import type { Clock } from '../../ports/clock.ts';
import { type DestinationTypes, type PreviewedRequest, targetsOf } from '../../ports/destination-type.ts';
import type { StoredEvent } from '../../ports/event-log.ts';
import type { AuditPage, AuditQuery, SettingsSnapshot } from '../../ports/settings-store.ts';
import type { LogView } from '../../ports/store-view.ts';
import { parseDeliveryId } from '../delivery-id.ts';
import { type ApiOperation, defineOperation } from '../operation.ts';
import { Problem } from '../problem.ts';
import { headerMaskOf, type RequestView, requestSchema, requestView } from '../request-view.ts';
import { FILTERED, outsideToken } from '../token-limits.ts';

export interface DeliveryRequestDependencies {
  readonly settings: {
    now(): SettingsSnapshot;
    audit(query: AuditQuery, limit: number): Promise<AuditPage>;
  };
  readonly log: Pick<LogView, 'read'>;
  readonly types: DestinationTypes;
  /** The requests that would carry an event to these targets at a time. */
  readonly preview: (
    event: StoredEvent,
    destination: Destination,
    to: { readonly targets: readonly Target[]; readonly at: Time },
  ) => readonly PreviewedRequest[];
  readonly clock: Clock;
}

/** spec/contract.md, "Operations on deliveries". */
export function deliveryRequestOperations(dependencies: DeliveryRequestDependencies): ApiOperation[] {
  const { settings, log, clock } = dependencies;
  return [
    defineOperation({
      method: 'GET',
      path: 'deliveries/:id/requests',
      role: 'viewer',
      summary:
        'Shows the requests of a delivery, one for each endpoint: made anew from the stored event, with the settings as they are ' +
        'now, so with the same bytes and X-Signature unless those were changed. Webhook-Timestamp is that of this moment: a signature for ' +
        'a time to come would be good then. Signatures are for the role `editor`',
      answer: z.object({
        data: z.array(requestSchema),
        settingsChangedAt: z.string().exactOptional().meta({
          description: 'When the destination was changed last: a request before that may have been another.',
        }),
      }),
      problems: ['unknown_delivery', 'outside_token'],
      showsBodies: true,
      isWithin: FILTERED,
      run: async ({ names, client: { caller } }) => {
        const id = parseDeliveryId(names['id'] ?? '');
        const destination = settings
          .now()
          .destinations.find((one) => id !== undefined && one.id === destinationOfLane(id.lane));
        if (id === undefined || destination === undefined) throw new Problem('unknown_delivery');
        const { limits } = caller ?? {};
        if (limits?.destinations.includes(destination.name) === false) throw outsideToken(limits);
        const [[event], { entries }] = await Promise.all([
          log.read([id.position]),
          settings.audit({ kind: 'destination', name: destination.name }, 1),
        ]);
        if (event === undefined) throw new Problem('unknown_delivery');
        const at = clock.now();
        return {
          data: requestViews(event, { destination, lane: id.lane, at }, dependencies).map((request) =>
            caller !== undefined && hasRole(caller.role, 'editor') ? request : unsigned(request),
          ),
          ...defined({ settingsChangedAt: isoTime(entries[0]?.at) }),
        };
      },
    }),
  ];
}

/** A signature of this very moment would let whoever only reads send the event as Millrace does. */
function unsigned({ headers, ...rest }: RequestView): RequestView {
  const masked = Object.entries(headers).map(([name, value]) => [
    name,
    /signature/i.test(name) ? ({ set: true } as const) : value,
  ]);
  return { ...rest, headers: Object.fromEntries(masked) };
}

interface Sending {
  readonly destination: Destination;
  readonly lane: number;
  readonly at: Time;
}

function requestViews(
  event: StoredEvent,
  { destination, lane, at }: Sending,
  { types, preview }: Pick<DeliveryRequestDependencies, 'types' | 'preview'>,
) {
  const place = endpointIndexOfLane(lane);
  const all = targetsOf(destination, types);
  // Of the lane itself, or of the destination where it has lost its lanes since.
  const targets = destination.success === 'each' ? all.slice(place, place + 1) : all;
  const mask = headerMaskOf(destination, types);
  return preview(event, destination, { targets, at }).map((request) => requestView(request, mask));
}
