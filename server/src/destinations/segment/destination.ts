import { destinationOfLane, endpointIdOf } from '../../model/lane.ts';
import { SecretRedactor } from '../../model/secret-redactor.ts';
import { type Duration, isoTime, SECOND, type Time } from '../../model/time.ts';
import type {
  BatchLimits,
  DeliveryOutcome,
  DestinationType,
  OutboundBatch,
  PreviewedRequest,
  Sender,
  SenderTools,
} from '../../ports/destination-type.ts';
import { allHeaders, type OutboundRequest } from '../../ports/http-client.ts';
import { deliveryOutcomeOf } from '../http/outcomes.ts';
import { type PassedCall, passedCall } from './call.ts';
import { type SegmentSettings, segmentForm } from './settings.ts';

/** Passes calls on to another service of the protocol, so that both can be compared for a while. */
export const segment: DestinationType<SegmentSettings> = {
  name: 'segment',
  integrationNames: [],
  settings: segmentForm,
  planning: { integrations: false, consent: false, deletes: false, isPassingOn: true },
  taker: 'worker',
  targets: ({ host }) => [{ place: 0, label: URL.parse(host)?.host ?? '', address: host }],
  open: (tools) => new PassingSender(tools),
};

function batchUrl(host: string): string {
  return `${host.replace(/\/+$/, '')}/v1/batch`;
}

/** The service takes 500 KB and 2,500 calls; a call has little more bytes than its stored line. */
const LIMITS: BatchLimits = { events: 100, bytes: 400_000 };

const TIMEOUT: Duration = 10 * SECOND;

/**
 * Calls whose senders' clocks differ by less are sent together, with one `sentAt` of the batch: a service
 * that looks at it and not at that of the call is wrong by half of this.
 */
const SAME_CLOCK: Duration = SECOND / 2;

/** Answers to a batch because of one of its calls: each half may be taken. */
const REFUSED_FOR_CONTENTS: readonly number[] = [400, 413];

class PassingSender implements Sender {
  readonly #tools: SenderTools;

  constructor(tools: SenderTools) {
    this.#tools = tools;
  }

  most(): BatchLimits {
    return LIMITS;
  }

  send(batch: OutboundBatch, done: Parameters<Sender['send']>[1]): void {
    const [target] = batch.targets;
    const outcomes: DeliveryOutcome[] = Array.from({ length: batch.events.length });
    let open = batch.events.length;
    for (const calls of callsOf(batch))
      this.#post(calls, batch, (nth, outcome) => {
        outcomes[nth] = outcome;
        if (--open === 0) done(target!, outcomes);
      });
  }

  /** Posts calls together. A refusal for the contents is that of one call: each half is posted by itself. */
  #post(
    calls: readonly NumberedCall[],
    batch: OutboundBatch,
    ended: (nth: number, outcome: DeliveryOutcome) => void,
  ): void {
    const { http, clock } = this.#tools;
    const request = requestOf(calls, batch);
    http.send(request, (received) => {
      const isRefused = received.kind === 'answered' && REFUSED_FOR_CONTENTS.includes(received.status);
      if (isRefused && calls.length > 1) {
        const middle = Math.ceil(calls.length / 2);
        for (const half of [calls.slice(0, middle), calls.slice(middle)]) this.#post(half, batch, ended);
        return;
      }
      const outcome = deliveryOutcomeOf(received, request, () => redactorOf(settingsOf(batch)), clock);
      for (const { nth } of calls) ended(nth, outcome);
    });
  }

  preview(batch: OutboundBatch): PreviewedRequest[] {
    const [target] = batch.targets;
    return callsOf(batch).map((calls) => {
      const request = requestOf(calls, batch);
      return { target: target!, url: request.url, headers: allHeaders(request), body: request.body };
    });
  }

  /** The client is closed by the part that has opened it, and with it every request. */
  async stop(): Promise<void> {}
}

/** A call with the place of its event in the batch. */
interface NumberedCall extends PassedCall {
  readonly nth: number;
}

/** The calls of a batch by the clocks of their senders: a request for each list. */
function callsOf({ events, now }: OutboundBatch): NumberedCall[][] {
  const calls = events.map(({ serialized }, nth) => ({ ...passedCall(serialized.event, now), nth }));
  return [...Map.groupBy(calls, ({ ahead }) => Math.round(ahead / SAME_CLOCK)).values()];
}

function settingsOf({ destination }: Pick<OutboundBatch, 'destination'>): SegmentSettings {
  return destination.settings as SegmentSettings;
}

function redactorOf({ writeKey }: SegmentSettings): SecretRedactor {
  return new SecretRedactor([writeKey, authorizationOf(writeKey)]);
}

function authorizationOf(writeKey: string): string {
  return `Basic ${Buffer.from(`${writeKey}:`).toString('base64')}`;
}

function requestOf(calls: readonly NumberedCall[], batch: OutboundBatch): OutboundRequest {
  const { destination, targets, now } = batch;
  const { host, writeKey } = settingsOf(batch);
  return {
    url: batchUrl(host),
    headers: {
      Accept: '*/*',
      'User-Agent': 'Millrace/1.0',
      'Content-Type': 'application/json',
      Authorization: authorizationOf(writeKey),
    },
    body: Buffer.from(JSON.stringify({ batch: calls.map(({ call }) => call), sentAt: sentAtOf(calls, now) })),
    timeout: TIMEOUT,
    pool: endpointIdOf({ id: destinationOfLane(destination.id) }, targets[0]!.place),
  };
}

/** The time of sending by the clocks of these senders. */
function sentAtOf([first]: readonly NumberedCall[], now: Time): string {
  return isoTime(now + Math.round(first!.ahead / SAME_CLOCK) * SAME_CLOCK);
}
