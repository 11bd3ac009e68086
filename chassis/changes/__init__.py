"""Change events: deployments, releases and other changes on the time line of a project. Control records them, explore
shows them beside latency. `tables` defines the rows, `repository` reads them.
"""
