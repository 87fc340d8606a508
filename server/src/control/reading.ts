import * as z from 'zod';
import { type Operation, operation } from './operation.ts';

/** What can be said about the server without changing it. */
export interface Readings {
  ledger(): Promise<object>;
  overview(): Promise<object>;
  discards(): Promise<object>;
  trace(messageId: string, source?: string): Promise<object>;
}

export function readingOperations(readings: Readings): Operation[] {
  return [
    operation({ method: 'GET', path: 'ledger', run: () => readings.ledger() }),
    operation({ method: 'GET', path: 'status', run: () => readings.overview() }),
    operation({ method: 'GET', path: 'discards', run: () => readings.discards() }),
    operation({
      method: 'GET',
      path: 'events/:messageId',
      query: z.object({ source: z.string().exactOptional() }),
      run: ({ names, query }) => readings.trace(names['messageId'] ?? '', query.source),
    }),
  ];
}
