import { AlertSender } from '../alerts/sender.ts';
import { AlertService } from '../alerts/service.ts';
import type { Config } from '../config/load.ts';
import { fixedHeaders, requestHeaders } from '../destinations/http/headers.ts';
import { deliveryOutcomeOf } from '../destinations/http/outcomes.ts';
import { standardWebhooksHeaders } from '../destinations/http/signatures.ts';
import type { AlertWebhook } from '../model/alert.ts';
import { defined } from '../model/json.ts';
import { SecretRedactor, secretsOfEndpoint } from '../model/secret-redactor.ts';
import { SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { AnsweredOutcome } from '../ports/destination-type.ts';
import type { HttpClient, OutboundRequest } from '../ports/http-client.ts';
import type { Logger } from '../ports/logger.ts';
import type { Mailer } from '../ports/mailer.ts';
import { explainFailure } from '../reporting/failures.ts';
import type { ReportService } from '../reporting/status.ts';
import type { SettingsService } from './settings-service.ts';

interface AlertParts {
  readonly settings: SettingsService;
  readonly reports: Pick<ReportService, 'overview'>;
  readonly httpClient: HttpClient;
  readonly mailer: Mailer;
  readonly config: Config;
  readonly version: string;
  readonly newId: () => string;
  readonly clock: Clock;
  readonly options: { readonly logger: Logger };
}

/** Alerts look at the same reports as people do. */
export function createAlerts(parts: AlertParts): AlertService {
  const { settings, reports, httpClient, mailer, config, version, newId, clock, options } = parts;
  const { limits, node } = config;
  const sender = new AlertSender({
    post: (webhook, message) => postAlert(webhook, message, { httpClient, clock }),
    mailer,
    speaker: { node, version },
    clock,
  });
  return new AlertService({
    settings,
    facts: async () => {
      const overview = await reports.overview();
      const { disk } = overview;
      return {
        at: clock.now(),
        overview,
        disk: { used: overview.log.bytes, ...defined({ limit: limits.disk, disk }) },
        explain: explainFailure,
      };
    },
    sender,
    newId,
    clock,
    logger: options.logger,
  });
}

const REQUEST_TIMEOUT = 10 * SECOND;

/** No pool of an endpoint of a destination: those have the ids of endpoints, which are positive. */
const POOL = -1;

/** Sends a message as a delivery is sent, once. Never rejects. */
function postAlert(
  webhook: AlertWebhook,
  message: { readonly id: string; readonly at: Time; readonly bytes: Buffer },
  { httpClient, clock }: Pick<AlertParts, 'httpClient' | 'clock'>,
): Promise<AnsweredOutcome> {
  const request = {
    url: webhook.url,
    ...alertHeaders(webhook, message),
    body: message.bytes,
    timeout: REQUEST_TIMEOUT,
    pool: POOL,
  };
  const redactor = () => new SecretRedactor(secretsOfEndpoint(webhook, webhook));
  return new Promise((resolve) =>
    httpClient.send(request, (received) => resolve(deliveryOutcomeOf(received, request, redactor, clock))),
  );
}

/** The headers of a delivery: a receiver verifies alerts with the code that verifies events. */
function alertHeaders(
  { url, headers, signingSecrets = [] }: AlertWebhook,
  message: { readonly id: string; readonly at: Time; readonly bytes: Buffer },
): Pick<OutboundRequest, 'fixedHeaders' | 'headers'> {
  const signed =
    signingSecrets.length === 0 ? {} : { standardWebhooks: standardWebhooksHeaders(message, signingSecrets) };
  return { fixedHeaders: fixedHeaders({ url, headers }), headers: requestHeaders(message.id, signed) };
}
