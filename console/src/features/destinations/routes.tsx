import { createRoute } from '@tanstack/react-router';
import { lazyPage } from '../../app/lazy-page.ts';
import { shellRoute } from '../../app/root-route.tsx';
import { DELIVERY_STATES, type DeliveryState } from './queries.ts';
import { DEEDS, type Deed, LIST_STATES, type ListState, TABS, type Tab } from './views.ts';

interface ListSearch {
  readonly state?: ListState;
  /** Part of a name, a URL or a source. */
  readonly q?: string;
  /** The form of a new one in the place of the list. No name is lost to it. */
  readonly new?: true;
}

interface DetailSearch {
  readonly tab?: Tab;
  readonly state?: DeliveryState;
  readonly reason?: string;
  /** The dialog that is open. */
  readonly do?: Deed;
}

const listRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/destinations',
  validateSearch: ({ state, q, new: isNew }: Record<string, unknown>): ListSearch => ({
    ...chosen('state', LIST_STATES, state),
    ...(q === undefined || q === '' ? {} : { q: String(q) }),
    ...(String(isNew) === 'true' ? { new: true } : {}),
  }),
  component: lazyPage(() => import('./list-page.tsx'), 'DestinationsPage'),
});

const detailRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/destinations/$name',
  validateSearch: ({ tab, state, reason, do: deed }: Record<string, unknown>): DetailSearch => ({
    ...chosen('tab', TABS, tab),
    ...chosen('state', DELIVERY_STATES, state),
    ...(typeof reason === 'string' ? { reason } : {}),
    ...chosen('do', DEEDS, deed),
  }),
  component: lazyPage(() => import('./detail-page.tsx'), 'DestinationPage'),
});

export const destinationRoutes = [listRoute, detailRoute] as const;

/** A value of the URL where it is one of those there are. */
function chosen<Key extends string, Value extends string>(
  key: Key,
  values: readonly Value[],
  given: unknown,
): { [One in Key]?: Value } {
  const value = values.find((one) => one === given);
  return value === undefined ? {} : ({ [key]: value } as { [One in Key]: Value });
}
