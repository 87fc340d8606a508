import type { Destination } from '../../model/destination.ts';
import type { Endpoint } from '../../model/endpoint.ts';
import { destinationOfLane, endpointIdOf, type Target } from '../../model/lane.ts';
import { SecretRedactor, secretsOfEndpoint } from '../../model/secret-redactor.ts';
import type { JsonLine, SerializedEvent } from '../../model/serialized-event.ts';
import { type Duration, SECOND } from '../../model/time.ts';
import type {
  BatchedEvent,
  DestinationType,
  OutboundBatch,
  PreviewedRequest,
  Sender,
  SenderTools,
} from '../../ports/destination-type.ts';
import { allHeaders, type OutboundRequest } from '../../ports/http-client.ts';
import { fixedHeaders, requestHeaders, webhookId, withTraceparent } from '../http/headers.ts';
import { deliveryOutcomeOf } from '../http/outcomes.ts';
import { signBody, standardWebhooksHeaders } from '../http/signatures.ts';
import { documentedPayloadFromBytes, messageIdFromBytes } from './fast-path/payload.ts';
import { serializePayload } from './payload.ts';
import { type Format, type WebhookSettings, webhookForm } from './settings.ts';

/** An endpoint must answer within 5 seconds. spec/specification.md, "Timeout". */
export const REQUEST_TIMEOUT: Duration = 5 * SECOND;

/** Posts every event as JSON to up to five URLs of the customer, signed when there is a shared secret. */
export const webhooks: DestinationType<WebhookSettings> = {
  name: 'webhooks',
  integrationNames: ['Webhooks', 'Webhooks (Actions)', 'Webhook', 'Extensible Webhook'],
  settings: webhookForm,
  planning: { integrations: true, consent: true, deletes: true },
  taker: 'worker',
  targets: ({ endpoints }) => endpoints.map(targetOf),
  signsPublicly: ({ publicSignature }) => publicSignature === true,
  open: (tools) => new WebhookSender(tools),
};

function targetOf({ url }: Endpoint, place: number): Target {
  return { place, label: URL.canParse(url) ? new URL(url).host : '', address: url };
}

const ONE_EVENT = { events: 1, bytes: Number.POSITIVE_INFINITY };

/** Sends every event by itself. */
class WebhookSender implements Sender {
  readonly #tools: SenderTools;

  constructor(tools: SenderTools) {
    this.#tools = tools;
  }

  most(): typeof ONE_EVENT {
    return ONE_EVENT;
  }

  send(batch: OutboundBatch, done: Parameters<Sender['send']>[1]): void {
    const { http, clock } = this.#tools;
    const settings = settingsOf(batch.destination);
    for (const { target, request } of requestsOf(batch, this.#tools)) {
      http.send(request, (received) => {
        const redactor = () => redactorOf(settings, target.place);
        done(target, [deliveryOutcomeOf(received, request, redactor, clock)]);
      });
    }
  }

  preview(batch: OutboundBatch): PreviewedRequest[] {
    return requestsOf(batch, this.#tools).map(({ target, request }) => {
      return { target, url: request.url, headers: allHeaders(request), body: request.body };
    });
  }

  /** The client is closed by the part that has opened it, and with it every request. */
  async stop(): Promise<void> {}
}

function settingsOf({ settings }: Pick<Destination, 'settings'>): WebhookSettings {
  return settings as WebhookSettings;
}

/** One for each endpoint of settings, because many answers of one endpoint may come in a second. */
const redactors = new WeakMap<WebhookSettings, SecretRedactor[]>();

function redactorOf(settings: WebhookSettings, place: number): SecretRedactor {
  let all = redactors.get(settings);
  if (all === undefined) {
    all = settings.endpoints.map((endpoint) => new SecretRedactor(secretsOfEndpoint(endpoint, settings)));
    redactors.set(settings, all);
  }
  return all[place]!;
}

/**
 * The requests of one delivery, one for each target. Pure: the same event and settings give the same body. It
 * is made and signed once for all targets, and all requests share its buffer. An empty secret counts as none,
 * because anyone could sign with it.
 */
export function requestsOf(
  { destination, targets, events, now }: OutboundBatch,
  { sourceOf }: Pick<SenderTools, 'sourceOf'>,
): readonly { readonly target: Target; readonly request: OutboundRequest }[] {
  const [event] = events as [BatchedEvent];
  const { serialized, replay, traceparent } = event;
  const settings = settingsOf(destination);
  const body = payloadBytes(event, settings.format, sourceOf);
  const id = webhookId(messageIdOf(serialized));
  const { sharedSecret, nextSharedSecret, signingSecrets = NO_SECRETS, publicSignature } = settings;
  const publicKey = publicSignature === true ? destination.signingKey : undefined;
  const headers = requestHeaders(id, {
    signature: sharedSecret ? signBody(body, sharedSecret) : undefined,
    nextSignature: nextSharedSecret ? signBody(body, nextSharedSecret) : undefined,
    standardWebhooks:
      signingSecrets.length > 0 || publicKey !== undefined
        ? standardWebhooksHeaders({ id, at: now, bytes: body }, signingSecrets, publicKey)
        : undefined,
    replayId: replay,
  });
  const own = { id: destinationOfLane(destination.id) };
  return targets.map((target) => {
    const endpoint = settings.endpoints[target.place]!;
    const request: OutboundRequest = {
      url: endpoint.url,
      fixedHeaders: fixedHeaders(endpoint, settings.userAgent),
      headers,
      body,
      timeout: REQUEST_TIMEOUT,
      pool: endpointIdOf(own, target.place),
    };
    return { target, request: traceparent === undefined ? request : withTraceparent(traceparent, request) };
  });
}

const NO_SECRETS: readonly string[] = [];

/**
 * The payload as bytes, the same as those of `serializePayload`. They are made from the stored line where
 * there is one.
 */
function payloadBytes(
  { serialized, source }: BatchedEvent,
  format: Format,
  sourceOf: SenderTools['sourceOf'],
): Buffer {
  const { line } = serialized;
  if (format !== 'segment' && line !== undefined && !isDeleteLine(line)) {
    if (format === 'canonical') return line.bytes.subarray(line.from, line.to);
    const documented = documentedPayloadFromBytes(line);
    if (documented !== undefined) return documented;
  }
  return Buffer.from(serializePayload(serialized.event, format, projectIdOf(source, sourceOf)));
}

/** The project of an event. That of a test, which no source has sent, is empty. */
function projectIdOf(id: BatchedEvent['source'], sourceOf: SenderTools['sourceOf']): string | undefined {
  const source = id === undefined ? undefined : sourceOf(id);
  return source?.projectId ?? source?.name;
}

/**
 * Whether a line may be that of a delete notification, whose body is made from the parsed event. Clients
 * seldom choose such ids.
 */
function isDeleteLine({ bytes, from }: JsonLine): boolean {
  for (let at = 0; at < DELETE_LINE.length; at++) if (bytes[from + at] !== DELETE_LINE[at]) return false;
  return true;
}

const DELETE_LINE = Buffer.from('{"messageId":"del_');

/** The messageId, from the line where possible: `serialized.event` would parse the whole event. */
function messageIdOf(serialized: SerializedEvent): string {
  const fromLine = serialized.line === undefined ? undefined : messageIdFromBytes(serialized.line);
  return fromLine ?? serialized.event.messageId;
}
