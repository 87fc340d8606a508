import * as z from 'zod';
import type { SettingsForm } from '../../../src/ports/destination-type.ts';

/** Settings of a destination of type `lines`. */
export interface LineSettings {
  /** A file that every event is added to as a line. */
  readonly path: string;
  /** Stands at the beginning of every line. */
  readonly token?: string;
}

const PATH_RULE = 'must be the path of a file';
const TOKEN_RULE = 'must be text of at least 1 character';

export const lineForm: SettingsForm<LineSettings> = {
  schema: z
    .strictObject(
      {
        path: z
          .string(PATH_RULE)
          .regex(/^\/[^\0]+$/, PATH_RULE)
          .meta({ title: 'File', description: 'The file that every event is added to as a line.' }),
        token: z
          .string(TOKEN_RULE)
          .min(1, TOKEN_RULE)
          .exactOptional()
          .meta({ title: 'Token', description: 'Stands at the beginning of every line.', writeOnly: true }),
      },
      'must be a mapping with path',
    )
    .meta({ description: 'Settings of a destination of type lines.' }),
  hidden: { addresses: [], secrets: ['token'] },
  shown: (mask) => z.object({ path: z.string(), token: mask.exactOptional() }),
};
