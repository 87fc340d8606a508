import { Link } from '@tanstack/react-router';
import { PageTabs } from '../../ui/page.tsx';

const SECTIONS = [
  { to: '/users', label: 'Profiles' },
  { to: '/users/audiences', label: 'Audiences' },
  { to: '/users/traits', label: 'Computed traits' },
  { to: '/users/deletions', label: 'Deletions' },
  { to: '/users/suppressions', label: 'Suppressions' },
] as const;

/** The pages about users. */
export function UserSections() {
  return (
    <PageTabs label="About users">
      {SECTIONS.map(({ to, label }) => (
        <Link key={to} to={to} activeOptions={{ exact: to === '/users', includeSearch: false }}>
          {label}
        </Link>
      ))}
    </PageTabs>
  );
}
