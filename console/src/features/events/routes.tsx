import { createRoute } from '@tanstack/react-router';
import { ID_PARAMETERS, idOfPathStep, pathStepOf } from '../../api/ids.ts';
import { lazyPage } from '../../app/lazy-page.ts';
import { shellRoute } from '../../app/root-route.tsx';
import { textParameters } from '../../app/search.ts';

const listRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/events',
  validateSearch: textParameters('source', 'type', ...ID_PARAMETERS, 'messageId', 'event', 'from', 'to'),
  component: lazyPage(() => import('./events-page.tsx'), 'EventsPage'),
});

const eventRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/events/$messageId',
  params: {
    parse: ({ messageId }) => ({ messageId: idOfPathStep(messageId) }),
    stringify: ({ messageId }) => ({ messageId: pathStepOf(messageId) }),
  },
  validateSearch: textParameters('source', 'tab', 'attempt'),
  component: lazyPage(() => import('./event-page.tsx'), 'EventPage'),
});

export const eventRoutes = [listRoute, eventRoute] as const;
