import * as z from 'zod';
import type { SettingsForm } from '../../ports/destination-type.ts';
import { webUrl } from '../http/settings.ts';

/** Settings of a destination of type `segment`. spec/specification.md, "Destinations of type segment". */
export interface SegmentSettings {
  /** Absolute URL of the service that calls are passed on to. `/v1/batch` is appended to it. */
  readonly host: string;
  /** Write key of a source there. */
  readonly writeKey: string;
}

const KEY_RULE = 'must be a write key of the service that calls are passed on to';
const HOST_RULE = 'must have no query: /v1/batch is appended to it';

export const segmentForm: SettingsForm<SegmentSettings> = {
  schema: z
    .strictObject(
      {
        host: webUrl
          .refine((url) => !url.includes('?'), { error: HOST_RULE })
          .meta({
            title: 'Host',
            description: 'Where the calls are passed on to; /v1/batch is appended.',
            examples: ['https://api.segment.io', 'https://events.eu1.segmentapis.com'],
          }),
        writeKey: z
          .string(KEY_RULE)
          .regex(/^[!-9;-~]{1,200}$/, KEY_RULE)
          .meta({
            title: 'Write key',
            description: 'The write key of the source there that is to have the calls.',
            writeOnly: true,
          }),
      },
      'must be a mapping with host and writeKey',
    )
    .meta({ description: 'Settings of a destination of type segment.' }),
  hidden: { addresses: ['host'], secrets: ['writeKey'] },
  shown: (mask) => z.object({ host: z.string(), writeKey: mask }),
};
