import type { DeliverySummary } from '@millrace/server';
import type { Paint } from './paint.ts';

/** The colour of each state of a delivery. */
export function stateDraw(paint: Paint): (state: DeliverySummary['state']) => (text: string) => string {
  const draws = {
    ...{ pending: paint.yellow, retrying: paint.yellow, delivered: paint.green, dead: paint.red },
    dropped: paint.dim,
  };
  return (state) => draws[state];
}
