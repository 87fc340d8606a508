import * as z from 'zod';
import { endpointSchema, signingSecrets } from '../destinations/http/settings.ts';
import { ALERT_CONDITIONS, type AlertRecord } from '../model/alert.ts';
import { MAX_ENTRIES } from '../model/input-limits.ts';
import { CONTROL, duration, recordName, textMatching } from './names.ts';

const webhook = z
  .strictObject(
    { ...endpointSchema.shape, signingSecrets },
    'must be a mapping with url, and headers and signingSecrets where wanted',
  )
  .meta({ description: 'A URL that gets messages as JSON, signed by the Standard Webhooks scheme.' });

const SERVER_RULE = 'must be a mail server such as smtps://smtp.example.com or smtp://10.0.0.5:25';
const ADDRESS_RULE = 'must be a mail address such as ops@example.com';

/** An address without angle brackets and a name: a name beside it could carry a second address. */
const address = () => textMatching(/^[^\s<>@,;:"()[\]\\]{1,64}@[A-Za-z0-9.-]{1,190}$/, ADDRESS_RULE);

const MAX_RECIPIENTS = 20;
const TO_RULE = `must be a list of 1 to ${MAX_RECIPIENTS} mail addresses`;
const LOGIN_RULE = 'must be text of 1 to 500 characters, without control characters';
const login = () => textMatching(new RegExp(`^[^${CONTROL}]{1,500}$`), LOGIN_RULE);

const mailbox = z
  .strictObject(
    {
      server: textMatching(/^smtps?:\/\/([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[1-9][0-9]{0,4})?$/, SERVER_RULE)
        // Colons and digits that are no address, and ports beyond the last one. Only with the scheme http are
        // numbers of IPv4 looked at.
        .refine((server) => URL.canParse(server.replace(/^smtp/, 'http')), { error: SERVER_RULE })
        .meta({
          description:
            'smtps:// uses TLS from the start (port 465), smtp:// as soon as the server offers it (port 587).',
        }),
      user: login().exactOptional().meta({ description: 'Signs in to the server.' }),
      password: login().exactOptional().meta({
        description: 'Of the user. It is sent over TLS only.',
        writeOnly: true,
      }),
      from: address().meta({ description: 'The sender.' }),
      to: z
        .array(address(), TO_RULE)
        .min(1, TO_RULE)
        .max(MAX_RECIPIENTS, TO_RULE)
        .meta({ description: 'The recipients.' }),
    },
    'must be a mapping with server, from and to',
  )
  .refine(({ user, password }) => password === undefined || user !== undefined, {
    error: 'must have a user where it has a password',
  })
  .meta({ description: 'People who get messages as mail, and the server that takes it.' });

const CONDITIONS_RULE = `must be a list of one or more of ${ALERT_CONDITIONS.join(', ')}`;

const shared = {
  name: recordName().meta({ description: 'Unique among the alerts.' }),
  enabled: z
    .boolean('must be true or false')
    .default(true)
    .meta({ description: 'While false nothing is sent. What has changed is told when it is enabled again.' }),
  on: z
    .array(z.enum(ALERT_CONDITIONS, `must be one of ${ALERT_CONDITIONS.join(', ')}`), CONDITIONS_RULE)
    .min(1, CONDITIONS_RULE)
    .default([...ALERT_CONDITIONS])
    .meta({ description: 'What it is about. Default: everything.', uniqueItems: true }),
  destinations: z
    .array(recordName(), 'must be a list of names of destinations')
    .exactOptional()
    .meta({ description: 'Only these destinations. Default: all of them.', maxItems: MAX_ENTRIES }),
  after: duration()
    .prefault('1m')
    .meta({ description: 'A change that lasts less is not told, so that a short hiccup wakes nobody.' }),
  remindEvery: duration()
    .prefault('4h')
    .meta({ description: 'The pause between two messages about a trouble that goes on.' }),
};

/** An entry of `alerts`, as an operator writes it. */
export const alertSchema = z.discriminatedUnion(
  'type',
  [
    z.strictObject({
      ...shared,
      type: z.literal('webhook').meta({ description: 'Told by a signed webhook.' }),
      settings: webhook,
    }),
    z.strictObject({
      ...shared,
      type: z.literal('email').meta({ description: 'Told by mail.' }),
      settings: mailbox,
    }),
  ],
  'must be a mapping with name, settings and the type webhook or email',
) satisfies z.ZodType<AlertRecord>;
