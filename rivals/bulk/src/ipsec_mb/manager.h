// The state that every call of ipsec-mb takes.

#include <intel-ipsec-mb.h>

// Makes one for the best instructions that this CPU has; null if memory or the CPU does not suffice.
IMB_MGR *widelane_manager(void);
