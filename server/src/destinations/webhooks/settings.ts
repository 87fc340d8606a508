import * as z from 'zod';
import type { Endpoint } from '../../model/endpoint.ts';
import { isObject } from '../../model/json.ts';
import { MAX_TARGETS } from '../../model/lane.ts';
import type { SigningSecrets } from '../../model/secret-redactor.ts';
import { weakSecretWarning } from '../../model/secrets.ts';
import type { SettingsForm, SettingsRemark } from '../../ports/destination-type.ts';
import { endpointSchema, HEADERS_RULE, MAX_CHECKED_ENTRIES, signingSecrets } from '../http/settings.ts';

/** Settings of a destination of type `webhooks`. spec/specification.md, "Settings". */
export interface WebhookSettings extends SigningSecrets {
  /** 1–5 endpoints. A delivery goes to all of them at once. */
  readonly endpoints: readonly Endpoint[];
  /**
   * Adds a signature that receivers verify without a secret, with the public key of the destination. Absent:
   * false.
   */
  readonly publicSignature?: boolean;
  readonly format: Format;
  /** The `User-Agent` of its requests. Absent: that of the program. */
  readonly userAgent?: string;
}

/** The bodies that a destination may have. spec/specification.md, "Payloads". */
const FORMATS = ['documented', 'canonical', 'segment'] as const;

export type Format = (typeof FORMATS)[number];

/** spec/specification.md, "Limits": webhook URLs per destination. */
const MAX_ENDPOINTS = MAX_TARGETS;

const ENDPOINTS_RULE = `must be a list of 1 to ${MAX_ENDPOINTS} endpoints`;
const AGENT_RULE = 'must be 1 to 200 visible ASCII characters, with spaces between them if you like';
const SECRET_RULE = 'must be text of at least 1 character';

/**
 * `destinations[].settings` of a destination of type `webhooks`, as an operator writes it.
 * spec/specification.md, "Settings".
 */
const webhookSettingsSchema = z
  .strictObject(
    {
      endpoints: z
        .array(endpointSchema, ENDPOINTS_RULE)
        .min(1, ENDPOINTS_RULE)
        // Not `.max`, which stops at the number and says nothing about the endpoints themselves.
        .superRefine(
          (list: unknown, context) => {
            if (!Array.isArray(list) || list.length <= MAX_ENDPOINTS) return;
            context.addIssue({ code: 'custom', message: ENDPOINTS_RULE, params: { found: true } });
          },
          { when: () => true },
        )
        .meta({
          description: `1 to ${MAX_ENDPOINTS} URLs. Every delivery goes to all of them at once.`,
          maxItems: MAX_ENDPOINTS,
        }),
      sharedSecret: z.string(SECRET_RULE).min(1, SECRET_RULE).exactOptional().meta({
        description: 'Signs every request (X-Signature, hexadecimal HMAC-SHA1 of the body) when it is set.',
        writeOnly: true,
      }),
      nextSharedSecret: z.string(SECRET_RULE).min(1, SECRET_RULE).exactOptional().meta({
        description:
          'The secret that will take the place of sharedSecret: requests carry a second signature with it (X-Signature-Next) while receivers change over.',
        writeOnly: true,
      }),
      signingSecrets,
      publicSignature: z.boolean('must be true or false').exactOptional().meta({
        description:
          'Adds a Standard Webhooks signature (v1a, ed25519) that receivers verify with a public key of this destination instead of a secret. False when absent.',
      }),
      format: z.enum(FORMATS, 'must be documented, canonical or segment').default('documented').meta({
        description:
          'The body: the documented fields of the type; the whole event as received after normalisation; or the whole event in the shape of the classic webhooks, with version, channel and projectId.',
      }),
      userAgent: z
        .string(AGENT_RULE)
        .regex(/^[!-~](?:[ -~]{0,198}[!-~])?$/, AGENT_RULE)
        .exactOptional()
        .meta({
          description: 'The User-Agent of its requests. Millrace/1.0 when absent.',
          examples: ['Segment.io/1.0'],
        }),
    },
    'must be a mapping with endpoints',
  )
  .meta({ description: 'Settings of a destination of type webhooks.' }) satisfies z.ZodType<WebhookSettings>;

/**
 * The list of endpoints, or the mapping of headers, that is too long to check. It is called before the
 * schema, which would check every entry before their number.
 */
export function findOversizedPart(settings: unknown): SettingsRemark | undefined {
  const endpoints = isObject(settings) ? settings['endpoints'] : undefined;
  if (!Array.isArray(endpoints)) return undefined;
  if (endpoints.length > MAX_CHECKED_ENTRIES) return { path: ['endpoints'], message: ENDPOINTS_RULE };
  const place = endpoints.findIndex((one: unknown) => {
    const headers = isObject(one) ? one['headers'] : undefined;
    return isObject(headers) && Object.keys(headers).length > MAX_CHECKED_ENTRIES;
  });
  return place === -1 ? undefined : { path: ['endpoints', place, 'headers'], message: HEADERS_RULE };
}

/** About secrets that are too short to be safe, and were not stored before. */
function weakSecrets(settings: WebhookSettings, stored: WebhookSettings | undefined): SettingsRemark[] {
  return (['sharedSecret', 'nextSharedSecret'] as const).flatMap((key) => {
    if (settings[key] === stored?.[key]) return [];
    const message = weakSecretWarning(settings[key]);
    return message === undefined ? [] : [{ path: [key], message }];
  });
}

export const webhookForm: SettingsForm<WebhookSettings> = {
  schema: webhookSettingsSchema,
  hidden: {
    addresses: ['endpoints[].url'],
    secrets: ['sharedSecret', 'nextSharedSecret', 'signingSecrets[]'],
    headers: ['endpoints[].headers'],
  },
  shown: (mask) =>
    z.looseObject({
      endpoints: z.array(
        z.object({ url: z.string(), headers: z.record(z.string(), z.union([z.string(), mask])) }),
      ),
      sharedSecret: mask.exactOptional(),
      nextSharedSecret: mask.exactOptional(),
      signingSecrets: z.array(mask).exactOptional(),
      publicSignature: z.boolean().exactOptional(),
      format: z.enum(FORMATS),
      userAgent: z.string().exactOptional(),
    }),
  oversized: findOversizedPart,
  warnings: weakSecrets,
};
